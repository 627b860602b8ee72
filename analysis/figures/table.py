"""The figure of a table: one column over its rows, ours beside the published values."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures.canvas import GREY, OURS, PAPER, below, canvas, literal, name_ticks, save
from analysis.tables.aggregate import Table
from analysis.tables.labels import axis_text, telling


def axis_plot(table: Table, column: str | None = None) -> Figure:
    """One column of a table over its rows: a dot per seed, the mean line, the seed-noise band, the published curve.

    The published curve has its own scale on the right, shifted but of equal span: levels differ, shapes compare.
    """
    chosen = column or table.spec.columns[0]
    figure, axes = canvas(" · ".join(part for part in (table.spec.id, table.spec.title) if part))
    handles = [*_ours(axes, table, chosen), *_baselines(axes, table, chosen), *_paper(axes, table, chosen)]
    named = telling([row.key for row in table.rows], table.spec.axes)
    name_ticks(axes, ["\n".join(axis_text(row.key[axis]) for axis in named) for row in table.rows])
    axes.set_xlabel(", ".join(map(literal, named)))
    axes.set_ylabel(literal(f"{chosen} (ours)"))
    below(figure, handles)
    return figure


def _ours(axes: Axes, table: Table, column: str) -> Iterator[Any]:
    entries = [(place, row.entries[column]) for place, row in enumerate(table.rows)]
    dots = [(place, value) for place, entry in entries for value in entry.values]
    means = [(place, entry.mean) for place, entry in entries if entry.mean is not None]
    if not means:
        return
    xs, ys = [place for place, _ in means], [mean for _, mean in means]
    spread = table.seed_spread(column)
    if spread is not None:
        low, high = [mean - spread.sd for mean in ys], [mean + spread.sd for mean in ys]
        yield axes.fill_between(xs, low, high, color=OURS, alpha=0.15, lw=0, label=f"± seed sd ({spread.sd:.2f})")
    yield axes.plot(xs, ys, color=OURS, lw=1.8, label="mean over seeds")[0]
    yield axes.scatter([x for x, _ in dots], [y for _, y in dots], color=OURS, s=16, alpha=0.7, label="one seed")


def _baselines(axes: Axes, table: Table, column: str) -> Iterator[Any]:
    styles = ("dashed", "dotted", "dashdot", (0, (1, 4)))
    for number, row in enumerate(row for row in table.baselines if column in row.values):
        style, label = styles[number % len(styles)], literal(f"without training: {row.label}")
        yield axes.axhline(row.values[column], color=GREY, lw=1.0, linestyle=style, label=label)


def _paper(axes: Axes, table: Table, column: str) -> Iterator[Any]:
    points = [(place, row.entries[column].published) for place, row in enumerate(table.rows)]
    printed = [(place, value) for place, value in points if value is not None]
    if printed:
        twin = axes.twinx()
        twin.set_ylabel("published", color=PAPER)
        twin.tick_params(axis="y", colors=PAPER)
        xs, ys = [place for place, _ in printed], [value for _, value in printed]
        label = "published (right scale)"
        line = twin.plot(xs, ys, color=PAPER, lw=1.2, marker="s", ms=4, linestyle="--", label=label)[0]
        _match_spans(axes, twin)
        yield line


def _match_spans(left: Axes, right: Axes) -> None:
    """Widens the narrower scale around its middle, so that a point is as high on both."""
    span = max(high - low for low, high in (left.get_ylim(), right.get_ylim()))
    for axes in (left, right):
        middle = sum(axes.get_ylim()) / 2
        axes.set_ylim(middle - span / 2, middle + span / 2)


def draw(table: Table, path: Path) -> None:
    """The table's plot as a file, in the format of its ending."""
    save(axis_plot(table), path)
