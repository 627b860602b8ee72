"""Figure of a table: one column over its rows, means over seeds with intervals, and the paper's values.

Rows named by words are a list from top to bottom; rows that differ in one number are placed at that number.
"""

import math
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures.canvas import (
    GREY,
    INK,
    OUR_COLOUR,
    PAPER_COLOUR,
    brief,
    canvas,
    literal,
    log_scaled,
    metric_name,
    save,
    thin_ticks,
    wrap_words,
)
from analysis.statistics.basics import Spread
from analysis.tables.aggregate import UNTRAINED_CLS, Row, Table
from analysis.tables.columns import Entry
from analysis.tables.labels import axis_text, label, short
from analysis.tables.spec import plain

TABLE_NAME_CHARACTERS = 42
"""Characters per line of a row's name."""
OWN_SPREAD_SEEDS = 3
"""Least number of seeds with which a row's interval uses its own spread; with fewer, the column's."""
FAR_AWAY = 1.5
"""Largest widening of the scale, in ranges of the rows, for which the reference line is drawn."""
MEASURED_LEGEND = "ours: ● mean, 95% interval; ○ a seed"
PUBLISHED_LEGEND = "the paper's: □, other levels, the same span"


def axis_plot(table: Table, column: str | None = None) -> Figure:
    """Draws one column of a table over its rows; published values have a panel of their own with a scale of equal
    span.

    Levels differ between scales of training, so only the shapes of the two panels compare. The reference line is the
    untrained encoder's [CLS].
    """
    column_name = column or table.spec.columns[0]
    title = " · ".join(part for part in (table.spec.id, table.spec.title) if part)
    rows = _sort_rows(table, column_name)
    numbers = _numbers(table, rows)
    has_paper = any(row.entries[column_name].published is not None for row in rows)
    if numbers is None:
        return _draw_by_name(table, rows, column_name, title, has_paper)
    return _draw_by_number(table, rows, column_name, title, numbers, has_paper)


def _sort_rows(table: Table, column: str) -> list[Row]:
    """Returns the rows in the table's order; a search's with the best first, and those without a number last."""
    if not table.spec.searched:
        return list(table.rows)
    sign, last = 1.0 if table.best(column) == "min" else -1.0, math.inf
    means = {id(row): row.entries[column].mean for row in table.rows}
    return sorted(table.rows, key=lambda row: last if (mean := means[id(row)]) is None else sign * mean)


def _numbers(table: Table, rows: Sequence[Row]) -> list[float] | None:
    """Returns the values of the only axis if all are numbers, else None."""
    values = [plain(row.key[axis]) for row in rows for axis in table.named] if len(table.named) == 1 else []
    numeric = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    return numeric if len(numeric) == len(rows) and len(rows) > 1 else None


def _draw_by_name(table: Table, rows: Sequence[Row], column: str, title: str, has_paper: bool) -> Figure:
    names = [wrap_words(brief(label(row.key, table.named)), TABLE_NAME_CHARACTERS) for row in rows]
    start = table.starting_point(column)
    draws_start = start is not None and _is_near(table, rows, column, start)
    if start is not None:
        names.append(UNTRAINED_CLS if draws_start else f"{UNTRAINED_CLS}: {start:.2f},\nfar off this scale")
    lines = sum(name.count("\n") + 1.4 for name in names)
    size = (7.0, 1.3 + 0.16 * max(lines, 4))
    figure, panels = canvas(title, across=1 + has_paper, size=size, sharey=True)
    panel, places = panels[0], list(range(len(rows)))
    _draw_measured(panel, table, rows, column, places, upright=False)
    if start is not None and draws_start:
        panel.axvline(start, color=INK, lw=1.0, linestyle="--", zorder=1)
    panel.set_yticks(range(len(names)), names)
    panel.set_ylim(len(names) - 0.4, -0.6)
    panel.grid(axis="y", color=GREY, alpha=0.2, lw=0.6)
    panel.set_xlabel(wrap_words(metric_name(column, table.spec.metric), 34 if has_paper else 60), fontsize=8)
    panel.set_title(wrap_words(MEASURED_LEGEND, 25 if has_paper else 100), fontsize=8, loc="left")
    if has_paper:
        _draw_published(panels[1], rows, column, places, upright=False)
        panels[1].grid(axis="y", color=GREY, alpha=0.2, lw=0.6)
        panels[1].set_xlabel("published", fontsize=8)
        _match_spans(panels, "x")
    thin_ticks(figure)
    return figure


def _draw_by_number(
    table: Table, rows: Sequence[Row], column: str, title: str, numbers: Sequence[float], has_paper: bool
) -> Figure:
    start = table.starting_point(column)
    size = (7.0, 4.8 if has_paper else 3.6)
    figure, panels = canvas(title, down=1 + has_paper, size=size, sharex=True)
    panel, last = panels[0], panels[-1]
    _draw_measured(panel, table, rows, column, numbers, upright=True)
    note = ""
    if start is not None and _is_near(table, rows, column, start):
        panel.axhline(start, color=INK, lw=1.0, linestyle="--", zorder=1)
        note = f"; dashed: {UNTRAINED_CLS}"
    elif start is not None:
        note = f"; {UNTRAINED_CLS}, {start:.2f}, is far off this scale"
    panel.set_title(wrap_words(MEASURED_LEGEND + note, 100), fontsize=8, loc="left")
    panel.set_ylabel(wrap_words(metric_name(column, table.spec.metric), 24), fontsize=8)
    if has_paper:
        _draw_published(last, rows, column, numbers, upright=True)
        last.set_ylabel("published", fontsize=8)
        _match_spans(panels, "y")
    if log_scaled(list(numbers)):
        last.set_xscale("log")
    last.set_xticks(list(numbers), [literal(axis_text(number)) for number in numbers], minor=False)
    last.set_xticks([], minor=True)
    last.set_xlabel(literal(short(table.named[0])), fontsize=8)
    thin_ticks(figure)
    return figure


def half_interval(table: Table, column: str, entry: Entry) -> float:
    """Returns half of the 95% interval of an entry's mean; 0 if no spread over seeds is known."""
    spread = Spread(entry.sd, entry.n - 1) if entry.sd and entry.n >= OWN_SPREAD_SEEDS else table.seed_spread(column)
    return spread.t() * spread.sd / math.sqrt(entry.n) if spread is not None and entry.n else 0.0


def _is_near(table: Table, rows: Sequence[Row], column: str, start: float) -> bool:
    entries = [entry for row in rows if (entry := row.entries[column]).mean is not None]
    ends = [e.mean + sign * half_interval(table, column, e) for e in entries for sign in (-1, 1) if e.mean is not None]
    if not ends:
        return True
    span = max(ends) - min(ends)
    return max(*ends, start) - min(*ends, start) <= (1 + FAR_AWAY) * max(span, 1e-9)


def _draw_measured(
    axes: Axes, table: Table, rows: Sequence[Row], column: str, places: Sequence[float], *, upright: bool
) -> None:
    entries = [(place, row.entries[column]) for place, row in zip(places, rows, strict=True)]
    seeds = [(place, value) for place, entry in entries if entry.n > 1 for value in entry.values]
    axes.scatter(*_orient(seeds, upright), s=16, facecolors="none", edgecolors=GREY, linewidths=0.8, zorder=2)
    means = [(place, entry.mean) for place, entry in entries if entry.mean is not None]
    halves = [half_interval(table, column, entry) for _, entry in entries if entry.mean is not None]
    if means:
        xerr, yerr = (None, halves) if upright else (halves, None)
        axes.errorbar(*_orient(means, upright), xerr=xerr, yerr=yerr, fmt="o", color=OUR_COLOUR, ms=5, lw=1.6, zorder=3)


def _draw_published(axes: Axes, rows: Sequence[Row], column: str, places: Sequence[float], *, upright: bool) -> None:
    points = [(place, row.entries[column].published) for place, row in zip(places, rows, strict=True)]
    printed = [(place, value) for place, value in points if value is not None]
    axes.scatter(
        *_orient(printed, upright), marker="s", s=26, facecolors="none", edgecolors=PAPER_COLOUR, linewidths=1.6
    )
    axes.set_title(wrap_words(PUBLISHED_LEGEND, 100 if upright else 25), fontsize=8, loc="left")


def _orient(points: Sequence[tuple[float, float]], upright: bool) -> tuple[list[float], list[float]]:
    """Returns (position, value) pairs as x and y; `upright` puts values on y."""
    places, values = [place for place, _ in points], [value for _, value in points]
    return (places, values) if upright else (values, places)


def _match_spans(panels: Sequence[Axes], axis: str) -> None:
    """Widens the narrower scale around its middle, so that a point is as long in both panels."""
    limits = [getattr(panel, f"get_{axis}lim")() for panel in panels]
    span = max(high - low for low, high in limits)
    for panel, (low, high) in zip(panels, limits, strict=True):
        getattr(panel, f"set_{axis}lim")((low + high - span) / 2, (low + high + span) / 2)


def draw(table: Table, path: Path) -> None:
    """Writes the table's plot to a file, in the format of its suffix."""
    save(axis_plot(table), path)
