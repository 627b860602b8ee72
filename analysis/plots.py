"""Figures of a table and of learning curves, drawn without a display and written aside, then renamed."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from analysis.aggregate import Row, Table
from analysis.markup import axis_text

OURS, PAPER, GREY = "#1f5fa8", "#c0482d", "#8a8a8a"


def axis_plot(table: Table, column: str | None = None) -> Figure:
    """One column of a table over its rows: a dot per seed, the mean line, the seed-noise band, the published curve.

    The published curve has its own scale on the right, shifted but of equal span: levels differ, shapes compare.
    """
    chosen = column or table.spec.columns[0]
    figure, axes = _canvas(" · ".join(part for part in (table.spec.id, table.spec.title) if part))
    handles = [*_ours(axes, table, chosen), *_baselines(axes, table, chosen), *_paper(axes, table, chosen)]
    axes.set_xticks(range(len(table.rows)), [_tick(row) for row in table.rows])
    axes.set_xlabel(", ".join(table.spec.axes))
    axes.set_ylabel(f"{chosen} (ours)")
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return figure


def _canvas(title: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(7.0, 4.4), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, fontsize=10)
    return figure, axes


def _tick(row: Row) -> str:
    return "\n".join(axis_text(value) for value in row.key.values())


def _ours(axes: Axes, table: Table, column: str) -> Iterator[Any]:
    cells = [(place, row.cells[column]) for place, row in enumerate(table.rows)]
    dots = [(place, value) for place, cell in cells for value in cell.values]
    means = [(place, cell.mean) for place, cell in cells if cell.mean is not None]
    if not means:
        return
    xs, ys = [place for place, _ in means], [mean for _, mean in means]
    sd = table.seed_sd(column)
    if sd is not None:
        low, high = [mean - sd for mean in ys], [mean + sd for mean in ys]
        yield axes.fill_between(xs, low, high, color=OURS, alpha=0.15, lw=0, label=f"± seed sd ({sd:.2f})")
    yield axes.plot(xs, ys, color=OURS, lw=1.8, label="mean over seeds")[0]
    yield axes.scatter([x for x, _ in dots], [y for _, y in dots], color=OURS, s=16, alpha=0.7, label="one seed")


def _baselines(axes: Axes, table: Table, column: str) -> Iterator[Any]:
    styles = ("dashed", "dotted", "dashdot", (0, (1, 4)))
    for number, row in enumerate(row for row in table.baselines if column in row.cells):
        style, label = styles[number % len(styles)], f"without training: {row.label}"
        yield axes.axhline(row.cells[column], color=GREY, lw=1.0, linestyle=style, label=label)


def _paper(axes: Axes, table: Table, column: str) -> Iterator[Any]:
    points = [(place, row.cells[column].published) for place, row in enumerate(table.rows)]
    known = [(place, value) for place, value in points if value is not None]
    if known:
        twin = axes.twinx()
        twin.set_ylabel("published", color=PAPER)
        twin.tick_params(axis="y", colors=PAPER)
        xs, ys = [place for place, _ in known], [value for _, value in known]
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


def learning_plot(curves: Mapping[str, Sequence[Mapping[str, Any]]], metric: str, *, title: str = "") -> Figure:
    """A metric over training examples, one line per label; points as `Ledger.curve` gives them."""
    figure, axes = _canvas(title)
    for label, points in curves.items():
        known = [(point["examples"], point["metrics"].get(metric)) for point in points]
        drawn = [(examples, value) for examples, value in known if value is not None]
        axes.plot([examples for examples, _ in drawn], [value for _, value in drawn], lw=1.3, label=label)
    axes.set_xlabel("training examples")
    axes.set_ylabel(metric)
    if 0 < len(curves) <= 12:
        axes.legend(fontsize=8, frameon=False)
    return figure


def save(figure: Figure, to: Path) -> Path:
    """Draws aside and renames, so that no reader ever finds half a picture; the suffix names the format (png)."""
    to.parent.mkdir(parents=True, exist_ok=True)
    aside = to.with_name(f".{to.name}.{os.getpid()}.part")
    FigureCanvasAgg(figure)
    try:
        figure.savefig(aside, format=to.suffix.lstrip(".") or "png", dpi=150)
        aside.replace(to)
    finally:
        aside.unlink(missing_ok=True)
    return to
