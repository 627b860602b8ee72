"""Figures of a study's axes: their shares of the variation, and the score over the values of each."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures.canvas import (
    GREY,
    MANY_POINTS,
    MARKER_SHAPES,
    OUR_COLOUR,
    PAPER_COLOUR,
    SERIES_COLOURS,
    canvas,
    log_scaled,
    thin_ticks,
)
from analysis.figures.words import literal, metric_name, wrap_words
from analysis.statistics.basics import mean_and_sd, t_interval
from analysis.statistics.importance import IMPORTANCE_LEVELS, Importance
from analysis.tables.labels import axis_text, label
from analysis.tables.spec import Key, plain

PANELS_PER_ROW = 3
"""Largest number of panels in one row."""
WORD_CHARACTERS, UPRIGHT_CHARACTERS = 12, 30
"""Characters per line of a tick label that is no number, and total characters above which tick labels turn upright."""
SERIES_SHOWN, SERIES_NAME_CHARACTERS = 4, 34
"""Number of rows on one axis that have colours of their own, and characters per line of their names."""


def importance_plot(effects: Importance) -> Figure:
    """Draws a bar per axis, largest on top, marked at what seeds alone reach once in twenty times; seeds below."""
    axes_shares = sorted(effects.axes, key=lambda axis: (-axis.share, axis.axis))
    names = [axis.axis for axis in axes_shares]
    shares = [axis.share for axis in axes_shares]
    extras = [(name, x) for name, x in (("seeds", effects.seeds), ("interactions", effects.rest)) if x is not None]
    figure, (axes,) = canvas(size=(7.0, 1.0 + 0.32 * (len(names) + 2)))
    axes.barh(range(len(names)), shares, color=OUR_COLOUR, height=0.6)
    rest = [(len(names) + i, value) for i, (_, value) in enumerate(extras)]
    axes.barh(
        [place for place, _ in rest], [value for _, value in rest], color="white", edgecolor=GREY, hatch="///",
        height=0.6,
    )  # fmt: skip
    floors = [(axis.floor, place) for place, axis in enumerate(axes_shares) if axis.floor is not None]
    axes.scatter(
        [f for f, _ in floors], [p for _, p in floors], marker="|", s=160, color=PAPER_COLOUR, zorder=3, linewidths=2
    )
    axes.set_yticks(range(len(names) + len(extras)), [literal(n) for n in (*names, *(name for name, _ in extras))])
    axes.invert_yaxis()
    mark = "; the upright mark: what seeds alone reach in 1 of 20" if floors else ""
    axes.set_xlabel(f"share of the sum of squares{mark}", fontsize=8)
    thin_ticks(figure)
    return figure


def effects_plot(keys: Sequence[Key], scores: Sequence[float], axes: Sequence[str], metric: str) -> Figure:
    """Draws one panel per axis: every run as a ring; for an axis with few values also means of its rows with
    intervals.

    Rows that differ in more than the panel's axis have means of their own, in colours that a legend names; where they
    are too many for that, a mean over all of them is drawn only if each value has equally many runs of each. Numbers
    are placed at their value, wide ranges on a log axis; the best run is a diamond in each panel.
    """
    down, across = -(-len(axes) // PANELS_PER_ROW), min(PANELS_PER_ROW, len(axes))
    size = (7.0 if across > 1 else 4.5, 2.6 * down)
    figure, panels = canvas(down=down, across=across, size=size, sharey=True)
    for panel, axis in zip(panels, axes, strict=False):
        _effect(panel, [plain(key.get(axis)) for key in keys], _other_settings(keys, axis), scores)
        panel.set_xlabel(literal(axis), fontsize=8)
        panel.tick_params(labelsize=7)
    for panel in panels[len(axes) :]:
        panel.set_visible(False)
    for panel in panels[::across]:
        panel.set_ylabel(wrap_words(metric_name(metric), 26), fontsize=8)
    thin_ticks(figure)
    return figure


def _other_settings(keys: Sequence[Key], axis: str) -> list[str]:
    """Returns for each run the label of its row's other axes, those that vary among runs with one value of `axis`."""
    values = [plain(key.get(axis)) for key in keys]
    other_axes = [
        name
        for name in dict.fromkeys(name for key in keys for name in key if name != axis)
        if len({(value, str(key.get(name))) for value, key in zip(values, keys, strict=True)}) > len(set(values))
    ]
    return [label(key, other_axes) if other_axes else "" for key in keys]


def _effect(panel: Axes, values: Sequence[Any], series_names: Sequence[str], scores: Sequence[float]) -> None:
    groups: dict[Any, list[float]] = {}
    for value, score in zip(values, scores, strict=True):
        groups.setdefault(value, []).append(score)
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in groups)
    order = sorted(groups) if numeric else sorted(groups, key=lambda value: (type(value).__name__, str(value)))
    place = {value: value if numeric else number for number, value in enumerate(order)}
    xs = [place[value] for value in values]
    panel.scatter(
        xs, scores, s=10, facecolors="none", edgecolors=GREY, linewidths=0.7, rasterized=len(xs) > MANY_POINTS
    )
    best = max(range(len(scores)), key=scores.__getitem__)
    panel.scatter(
        [xs[best]], [scores[best]], marker="D", s=26, facecolors="none", edgecolors=PAPER_COLOUR, linewidths=1.4
    )
    if numeric and log_scaled(list(groups)):
        panel.set_xscale("log")
    if len(order) <= IMPORTANCE_LEVELS or not numeric:
        for number, (name, rows) in enumerate(_series(values, series_names, scores).items()):
            drawn_values = [value for value in order if value in rows]
            means = [mean_and_sd(rows[value])[0] or 0.0 for value in drawn_values]
            halves = [(high - low) / 2 for low, high in (t_interval(rows[v]) or (0.0, 0.0) for v in drawn_values)]
            colour, shape = SERIES_COLOURS[number % len(SERIES_COLOURS)], MARKER_SHAPES[number % len(MARKER_SHAPES)]
            panel.errorbar(
                [place[v] for v in drawn_values], means, yerr=halves, fmt=shape, color=colour, ms=4, lw=1.4, zorder=3,
                label=wrap_words(name, SERIES_NAME_CHARACTERS),
            )  # fmt: skip
            if name:
                panel.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=6.5, frameon=False)
        names = [wrap_words(axis_text(value).replace("_", " "), WORD_CHARACTERS) for value in order]
        upright = not numeric and sum(max(map(len, name.split("\n"))) + 1 for name in names) > UPRIGHT_CHARACTERS
        panel.set_xticks([place[value] for value in order], names, rotation=90 if upright else 0)
        if not numeric:
            panel.set_xlim(-0.6, len(order) - 0.4)
        panel.set_xticks([], minor=True)


def _series(values: Sequence[Any], groups: Sequence[str], scores: Sequence[float]) -> dict[str, dict[Any, list[float]]]:
    """Returns name -> value of the axis -> scores whose mean is one mark; the series over all rows has an empty name.

    Empty where rows are too many for colours and a mean over them would compare unlike runs.
    """
    series: dict[str, dict[Any, list[float]]] = {}
    for value, series_name, score in zip(values, groups, scores, strict=True):
        series.setdefault(series_name, {}).setdefault(value, []).append(score)
    if len(series) <= SERIES_SHOWN:
        return series
    counts = [{value: len(rows) for value, rows in each.items()} for each in series.values()]
    if any(each != counts[0] for each in counts):
        return {}
    merged: dict[Any, list[float]] = {}
    for value, score in zip(values, scores, strict=True):
        merged.setdefault(value, []).append(score)
    return {"": merged}
