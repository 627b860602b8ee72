"""Figures of a study's axes: their share of the differences, and the score over each one's values."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures.canvas import GREY, MANY, OURS, PAPER, below, canvas, literal
from analysis.statistics.importance import Importance
from analysis.tables.labels import axis_text
from analysis.tables.spec import plain

ACROSS = 3
"""Panels beside each other."""


def importance_plot(effects: Importance) -> Figure:
    """A bar per axis, largest on top, marked where seeds alone reach once in twenty times; seeds and rest below."""
    axes_shares = sorted(effects.axes, key=lambda axis: (-axis.share, axis.axis))
    names = [axis.axis for axis in axes_shares]
    shares = [axis.share for axis in axes_shares]
    more = [("seeds", effects.seeds), ("interactions", effects.rest)]
    figure, axes = canvas(size=(7.0, 1.4 + 0.32 * (len(names) + 2)))
    bars = axes.barh(range(len(names)), shares, color=OURS, height=0.6, label="axis")
    rest = [(len(names) + i, value) for i, (_, value) in enumerate(more) if value is not None]
    axes.barh([place for place, _ in rest], [value for _, value in rest], color=GREY, height=0.6)
    floors = [(axis.floor, place) for place, axis in enumerate(axes_shares) if axis.floor is not None]
    marks = axes.scatter(
        [f for f, _ in floors], [p for _, p in floors], marker="|", s=160, color=PAPER, zorder=3, linewidths=2,
        label="seeds alone reach this in 1 of 20",
    )  # fmt: skip
    axes.set_yticks(range(len(names) + len(more)), [literal(n) for n in (*names, *(name for name, _ in more))])
    axes.invert_yaxis()
    axes.set_xlabel("share of the sum of squares")
    below(figure, [bars, marks] if floors else [bars])
    return figure


def effects_plot(
    keys: Sequence[Mapping[str, Any]], scores: Sequence[float], axes: Sequence[str], metric: str
) -> Figure:
    """One panel per axis: every run as a dot, the mean of each value over all other axes as a line."""
    down = -(-len(axes) // ACROSS)
    across = min(ACROSS, len(axes))
    figure = Figure(figsize=(7.0 if across > 1 else 4.5, 2.6 * down), layout="constrained")
    panels = figure.subplots(down, across, sharey=True, squeeze=False)
    for number, panel in enumerate(panels.flat):
        if number >= len(axes):
            panel.set_visible(False)
            continue
        _effect(panel, [plain(key.get(axes[number])) for key in keys], scores)
        panel.set_xlabel(literal(axes[number]), fontsize=8)
        panel.tick_params(labelsize=7)
    for row in panels:
        row[0].set_ylabel(literal(metric), fontsize=8)
    return figure


def _effect(panel: Axes, values: Sequence[Any], scores: Sequence[float]) -> None:
    """Numbers in their order, evenly spaced; words as they come."""
    groups: dict[Any, list[float]] = {}
    for value, score in zip(values, scores, strict=True):
        groups.setdefault(value, []).append(score)
    numeric = [v for v in groups if isinstance(v, int | float) and not isinstance(v, bool)]
    style = "-" if len(numeric) == len(groups) else "none"
    order = [*sorted(numeric), *(v for v in groups if v not in numeric)]
    place = {value: number for number, value in enumerate(order)}
    xs = [place[value] for value in values]
    panel.scatter(xs, scores, color=GREY, s=8, alpha=0.35, lw=0, rasterized=len(xs) > MANY)
    means = [statistics.fmean(groups[value]) for value in order]
    panel.plot(range(len(order)), means, color=OURS, marker="o", ms=4, lw=1.5, linestyle=style)
    if len(order) <= 12:
        panel.set_xticks(range(len(order)), [literal(axis_text(value)) for value in order], rotation=45, ha="right")
    else:
        name_ends = [0, len(order) - 1]
        panel.set_xticks(name_ends, [literal(axis_text(order[i])) for i in name_ends])
