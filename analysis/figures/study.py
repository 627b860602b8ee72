"""Figures of a study: learning curves, best score by examples spent, shares and effects of axes, alignment and
uniformity, and cosines by human rating."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from analysis.figures.canvas import (
    GREY,
    INK,
    MANY_POINTS,
    MARKER_SHAPES,
    OUR_COLOUR,
    PAPER_COLOUR,
    SERIES_COLOURS,
    canvas,
    distinct,
    label_ends,
    literal,
    log_scaled,
    metric_name,
    thin_ticks,
    wrap_words,
)
from analysis.statistics.basics import mean_and_sd, t_interval
from analysis.statistics.importance import IMPORTANCE_LEVELS, Importance
from analysis.study.figure_data import EDGES, RATING_GROUPS, Band, Plane, RatingHistogram, SpentBudget
from analysis.tables.labels import axis_text, label
from analysis.tables.spec import Key, plain

RUN_NAME_CHARACTERS = 38
"""Characters per line of a curve's name."""
FEW_POINTS = 4
"""Number of curves up to which their bands are drawn clearly; bands of more are faint."""
MARKED_POINTS = 6
"""Number of marker shapes along a curve."""
PANELS_PER_ROW = 3
"""Largest number of panels in one row."""
WORD_CHARACTERS, UPRIGHT_CHARACTERS = 12, 30
"""Characters per line of a tick label that is no number, and total characters above which tick labels turn upright."""
SERIES_SHOWN, SERIES_NAME_CHARACTERS = 4, 34
"""Number of rows on one axis that have colours of their own, and characters per line of a legend's names."""
RUNS_NAMED = 8
"""Number of cells above which the plane names none."""


def learning_plot(bands: Sequence[Band], metric: str) -> Figure:
    """Draws the mean over seeds by training examples, one line per cell, with a band of one standard deviation.

    Each line has a marker shape of its own, and its name at its end.
    """
    names = [
        wrap_words(f"{name} (n\u00a0{band.seeds})", RUN_NAME_CHARACTERS)
        for name, band in zip(distinct([band.label for band in bands]), bands, strict=True)
    ]
    lines = sum(name.count("\n") + 1 for name in names)
    figure, (axes,) = canvas(size=(7.0, max(4.0, 1.0 + 0.145 * lines)))
    ends = []
    for number, (name, band) in enumerate(zip(names, bands, strict=True)):
        colour, shape = SERIES_COLOURS[number % len(SERIES_COLOURS)], MARKER_SHAPES[number % len(MARKER_SHAPES)]
        low = [mean - sd for mean, sd in zip(band.means, band.sds, strict=True)]
        high = [mean + sd for mean, sd in zip(band.means, band.sds, strict=True)]
        axes.fill_between(
            band.examples, low, high, color=colour, alpha=0.12 if len(bands) <= FEW_POINTS else 0.05, lw=0
        )
        # Backwards, so that each line has a marker at its last point.
        every = (len(band.means) - 1, -max(1, len(band.means) // MARKED_POINTS))
        marked = list(range(*every, -1 if every[1] < 0 else 1)) if len(band.means) > 1 else [0]
        axes.plot(band.examples, band.means, color=colour, lw=1.5, marker=shape, ms=5, markevery=sorted(marked))
        ends.append((band.means[-1], name, colour))
    _count_examples(figure, "training examples")
    axes.set_ylabel(wrap_words(metric_name(metric), 40), fontsize=8)
    label_ends(figure, axes, ends)
    thin_ticks(figure)
    return figure


def budget_plot(budget: SpentBudget, metric: str) -> Figure:
    """Draws the best cell so far over the examples spent, every cell as a ring, and a random order's expected best."""
    figure, (axes,) = canvas(size=(7.0, 3.8))
    spent = list(budget.spent)
    many = len(spent) > MANY_POINTS
    axes.scatter(spent, budget.scores, s=18, facecolors="none", edgecolors=GREY, linewidths=0.9, rasterized=many)
    axes.step(spent, budget.best, where="post", color=OUR_COLOUR, lw=1.8)
    axes.plot(spent, budget.expected, color=PAPER_COLOUR, lw=1.4, linestyle="--")
    _count_examples(figure, "training examples spent, all seeds")
    axes.set_ylabel(wrap_words(f"{metric_name(metric)}, mean over seeds", 40), fontsize=8)
    ends = [
        (budget.best[-1], "best so far", OUR_COLOUR),
        (budget.expected[-1], "dashed: expected best\nof a random order", PAPER_COLOUR),
        (budget.scores[-1], "○ one cell", GREY),
    ]
    label_ends(figure, axes, ends)
    thin_ticks(figure)
    return figure


def _count_examples(figure: Figure, label: str) -> None:
    (axes,) = figure.axes
    axes.set_xlabel(label, fontsize=8)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.xaxis.set_major_locator(MaxNLocator(6))


def importance_plot(effects: Importance) -> Figure:
    """Draws a bar per axis, largest on top, marked at what seeds alone reach once in twenty times; seeds below."""
    axes_shares = sorted(effects.axes, key=lambda axis: (-axis.share, axis.axis))
    names = [axis.axis for axis in axes_shares]
    shares = [axis.share for axis in axes_shares]
    extras = [(name, x) for name, x in (("seeds", effects.seeds), ("interactions", effects.rest)) if x is not None]
    figure, (axes,) = canvas(size=(7.0, 1.0 + 0.32 * (len(names) + 2)))
    axes.barh(range(len(names)), shares, color=OUR_COLOUR, height=0.6)
    values, below = [value for _, value in extras], range(len(names), len(names) + len(extras))
    axes.barh(below, values, color="white", edgecolor=GREY, hatch="///", height=0.6)
    floors = [(axis.floor, place) for place, axis in enumerate(axes_shares) if axis.floor is not None]
    floor_values, places = [floor for floor, _ in floors], [place for _, place in floors]
    axes.scatter(floor_values, places, marker="|", s=160, color=PAPER_COLOUR, zorder=3, linewidths=2)
    axes.set_yticks(range(len(names) + len(extras)), [*map(literal, names), *(name for name, _ in extras)])
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
    many = len(xs) > MANY_POINTS
    panel.scatter(xs, scores, s=10, facecolors="none", edgecolors=GREY, linewidths=0.7, rasterized=many)
    best = max(range(len(scores)), key=scores.__getitem__)
    panel.scatter(xs[best], scores[best], marker="D", s=26, facecolors="none", edgecolors=PAPER_COLOUR, linewidths=1.4)
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


def plane_plot(plane: Plane, metric: str) -> Figure:
    """Draws a mark per run, coloured by its score. Up to RUNS_NAMED cells have a shape each, named in a list below."""
    cells = list(dict.fromkeys(point.cell for point in plane.points))
    figure, (axes,) = canvas(size=(7.0, 4.4))
    scores = [point.score for point in plane.points]
    few = len(cells) <= RUNS_NAMED
    low, high = min(scores), max(scores)
    for number, cell in enumerate(cells if few else [""]):
        points = [point for point in plane.points if not few or point.cell == cell]
        dots = axes.scatter(
            [p.uniformity for p in points], [p.alignment for p in points], c=[p.score for p in points], s=40,
            marker=MARKER_SHAPES[number], cmap="viridis", vmin=low, vmax=high if high > low else low + 1,
            edgecolors=INK, linewidths=0.5, rasterized=len(points) > MANY_POINTS,
        )  # fmt: skip
    bar = figure.colorbar(dots, ax=axes)
    bar.set_label(wrap_words(f"best {metric_name(metric)}", 40), fontsize=8)
    axes.set_xlabel("uniformity (lower: more even)", fontsize=8)
    axes.set_ylabel("alignment (lower: closer)", fontsize=8)
    if few:
        names = [wrap_words(name, SERIES_NAME_CHARACTERS) for name in distinct(cells)]
        marks = [
            axes.scatter([], [], marker=shape, s=30, facecolors="none", edgecolors=INK, label=name)
            for shape, name in zip(MARKER_SHAPES, names, strict=False)
        ]
        figure.legend(handles=marks, loc="outside lower center", ncols=2, fontsize=7.5, frameon=False)
    thin_ticks(figure)
    return figure


def histogram_plot(histograms: Sequence[RatingHistogram]) -> Figure:
    """Draws a column per cell and a row per rating group; the vertical line is the group's mean cosine."""
    down, across = len(RATING_GROUPS), len(histograms)
    figure, flat = canvas(down=down, across=across, size=(7.0, 5.2), sharex=True, sharey="col")
    panels = np.array(flat).reshape(down, across)
    widths, centres = np.diff(EDGES), (EDGES[1:] + EDGES[:-1]) / 2
    names = distinct([histogram.label for histogram in histograms])
    for column, histogram in enumerate(histograms):
        panels[0, column].set_title(wrap_words(f"{names[column]} (n\u00a0{histogram.seeds})", 76 // across), fontsize=8)
        for group, name in enumerate(RATING_GROUPS):
            panel, mean = panels[group, column], histogram.means[group]
            panel.bar(centres, histogram.counts[group], width=widths, color=SERIES_COLOURS[0])
            if mean is not None:
                panel.axvline(mean, color=INK, lw=1.2)
            panel.set_yticks([])
            panels[group, 0].set_ylabel(f"rated\n{name}", fontsize=8, rotation=0, ha="right", va="center")
        panels[-1, column].set_xlabel("cosine", fontsize=8)
    lowest = min((EDGES[int(np.argmax(h.counts.sum(axis=0) > 0))] for h in histograms), default=-1.0)
    panels[0, 0].set_xlim(lowest, 1.0)
    thin_ticks(figure)
    return figure
