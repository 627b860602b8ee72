"""The runs of one sweep as plain values for JSON: a page of its table, filtered, sorted or grouped by cell."""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeVar

from analysis.progress.rows import ProgressRow, cells_of
from analysis.progress.sweeps import prominence
from analysis.tables.labels import axis_text, label, short, varying
from cse_train.results import Json

PAGE_ROWS = 100
"""Number of runs, or cells, on a page."""
MEMBERS_SHOWN = 30
"""Number of runs that the line of a cell names."""
RUN_COLUMNS = ("seed", "state", "best", "share", "examples", "method")
"""Columns of a run in addition to the axes."""
FILTER_TERM = re.compile(r"([\w.]+)(<=|>=|!=|=|:|<|>)(.+)")
COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
}
Line = TypeVar("Line")


class FilterError(ValueError):
    """Filter that names an unknown column or no number; the message is one line."""


@dataclass(frozen=True)
class Listing:
    """Every run of a sweep with its label."""

    rows: Sequence[ProgressRow]
    names: Mapping[str, str]
    """Signature -> label of the run."""

    @cached_property
    def axes(self) -> Sequence[str]:
        """Axes with more than one value."""
        cells = cells_of(self.rows)
        return varying(cells, list(dict.fromkeys(axis for cell in cells for axis in cell)))

    def value(self, row: ProgressRow, column: str) -> Any:
        return getattr(row, column) if column in RUN_COLUMNS else row.cell.get(column)


def page(
    listing: Listing, *, sort: str = "", down: bool = False, words: str = "", folded: bool = False, offset: int = 0
) -> dict[str, object]:
    """Returns the runs, or with `folded` the cells, from `offset` on, and their number.

    `sort`: a column or an axis; empty for running runs, then failed ones, then the best. `words`: filter terms that
    must all hold: `dup_rate>=0.2`, `state=failed`, or a word in the label or reason. Raises FilterError for an unknown
    column.
    """
    filtered = filter_rows(listing, words)
    column = _column(listing, sort) if sort else ""
    lines: Sequence[ProgressRow | Json]
    if folded:
        key = column or "best"
        place = None if key in RUN_COLUMNS else listing.axes.index(key)
        value = (lambda cell: cell.get(key)) if place is None else (lambda cell: cell["values"][place])
        lines = _sort_lines(_cells(listing, filtered), value, down=down or not column)
    elif column:
        lines = _sort_lines(filtered, partial(listing.value, column=column), down=down)
    else:
        filtered.sort(key=prominence)
        lines = filtered
    start = max(0, min(offset, len(lines) - 1)) // PAGE_ROWS * PAGE_ROWS
    return {
        "axes": [{"axis": axis, "name": short(axis)} for axis in listing.axes],
        "runs": len(filtered),
        "all": len(listing.rows),
        "lines": len(lines),
        "offset": start,
        "size": PAGE_ROWS,
        "page": [_entry(listing, line) for line in lines[start : start + PAGE_ROWS]],
    }


def _entry(listing: Listing, line: ProgressRow | Json) -> Json:
    """Returns a run, or a cell, as one line of the page."""
    if not isinstance(line, ProgressRow):
        return {name: line[name] for name in line if name != "values"}
    names = ("signature", "seed", "state", "share", "examples", "total", "best", "best_examples", "reason")
    return {
        "label": listing.names[line.signature],
        "cell": {axis: axis_text(line.cell.get(axis)) for axis in listing.axes},
        **{name: getattr(line, name) for name in names},
    }


def filter_rows(listing: Listing, words: str) -> list[ProgressRow]:
    """Returns the rows for which every term of a filter holds. Raises FilterError."""
    tests = [_make_test(listing, word) for word in words.split()]
    return [row for row in listing.rows if all(test(row) for test in tests)]


def _make_test(listing: Listing, word: str) -> Callable[[ProgressRow], bool]:
    parts = FILTER_TERM.fullmatch(word)
    if parts is None:
        text = word.lower()
        return lambda row: text in f"{listing.names[row.signature]} {row.state} {row.reason or ''}".lower()
    name, sign, target = parts.groups()
    column, number = _column(listing, name), _number(target)
    if sign == ":":
        return lambda row: target.lower() in axis_text(listing.value(row, column)).lower()
    if sign in COMPARISONS:
        if number is None:
            raise FilterError(f"no number: {word}; {sign} compares numbers")
        holds = COMPARISONS[sign]

        def ordered(row: ProgressRow) -> bool:
            value = _number(listing.value(row, column))
            return value is not None and holds(value, number)

        return ordered

    def equal(row: ProgressRow) -> bool:
        value = listing.value(row, column)
        is_equal = axis_text(value).lower() == target.lower() or (number is not None and _number(value) == number)
        return is_equal if sign == "=" else not is_equal

    return equal


def _column(listing: Listing, name: str) -> str:
    for column in (*RUN_COLUMNS, *listing.axes):
        if name in (column, short(column)):
            return column
    names = ", ".join(map(short, (*listing.axes, *RUN_COLUMNS)))
    raise FilterError(f"no such column: {name}; there are {names}")


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _cells(listing: Listing, rows: Sequence[ProgressRow]) -> list[Json]:
    texts = {id(cell): repr(sorted(cell.items(), key=lambda item: item[0])) for cell in cells_of(rows)}
    by_cell: dict[str, list[ProgressRow]] = {}
    for row in rows:
        by_cell.setdefault(texts[id(row.cell)], []).append(row)
    return [_cell(listing, members) for members in by_cell.values()]


def _cell(listing: Listing, rows: Sequence[ProgressRow]) -> Json:
    scores = [row.best for row in rows if row.best is not None]
    mean = math.fsum(scores) / len(scores) if scores else None
    sd = None
    if mean is not None and len(scores) > 1:  # `statistics.stdev` takes 50 times as long
        sd = math.sqrt(math.fsum((score - mean) ** 2 for score in scores) / (len(scores) - 1))
    members = [{name: getattr(row, name) for name in ("signature", "seed", "state", "best")} for row in rows]
    values = [rows[0].cell.get(axis) for axis in listing.axes]
    return {
        "label": label(rows[0].cell, listing.axes),
        "cell": dict(zip(listing.axes, map(axis_text, values), strict=True)),
        "values": values,
        "states": dict(Counter(row.state for row in rows)),
        "share": sum(row.way for row in rows) / len(rows),
        "examples": sum(row.examples for row in rows),
        "n": len(scores),
        "best": mean,
        "sd": sd,
        "runs": sorted(members[:MEMBERS_SHOWN], key=lambda member: member["seed"]),
        "more": max(0, len(members) - MEMBERS_SHOWN),
    }


def _sort_lines(lines: Sequence[Line], value: Callable[[Line], Any], *, down: bool) -> list[Line]:
    """Returns lines sorted by a column: numbers, then words; lines without a value come last in either direction."""

    def place(line: Line) -> tuple[int, float, str]:
        entry = value(line)
        number = _number(entry) if isinstance(entry, int | float) else None
        return (0, number, "") if number is not None else (1, 0.0, str(entry))

    valued = [line for line in lines if value(line) is not None]
    return [*sorted(valued, key=place, reverse=down), *(line for line in lines if value(line) is None)]
