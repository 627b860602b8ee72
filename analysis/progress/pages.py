"""Pages of a sweep's runs: filtered, sorted, one by one or grouped by cell."""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeVar

from analysis.progress.rows import ProgressRow, cells_of
from analysis.run_state import UNCLAIMED, RunState, Standing
from analysis.tables.labels import axis_text, label, short, varying
from cse_train.results import Json

PAGE_ROWS = 100
"""Number of runs, or cells, on a page."""
PLOTTED = 2000
"""Largest number of cells in a figure: half are the best, half are spread over the others."""
MEMBERS_SHOWN = 30
"""Number of runs that the line of a cell names."""
STATE_ORDER: Sequence[Standing] = (
    *(RunState.RUNNING, RunState.CLAIMED, RunState.FAILED, RunState.LOST, RunState.DONE, RunState.STOPPED),
    UNCLAIMED,
)
"""Default order of runs by state."""
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
class Wanted:
    """Sort order, filter, grouping and offset of a requested page."""

    sort: str = ""
    """Column or axis to sort by; empty for running runs, then failed ones, then the best."""
    down: bool = False
    words: str = ""
    """Filter terms that must all hold: `dup_rate>=0.2`, `state=failed`, or a word in the label or reason."""
    folded: bool = False
    """True for one line per cell that summarises all its seeds."""
    offset: int = 0


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


def page(listing: Listing, request: Wanted) -> dict[str, object]:
    """Returns the runs or cells from `offset` on, and their number. Raises FilterError for an unknown column."""
    filtered = filter_rows(listing, request.words)
    column = _column(listing, request.sort) if request.sort else ""
    if request.folded:
        cells = _cells(listing, filtered)
        ordered = _sort_lines(cells, partial(_value_of_cell, column or "best"), down=request.down or not column)
        part = _cut_page(ordered, request.offset, lambda line: {name: line[name] for name in line if name != "values"})
    else:
        value = partial(listing.value, column=column)
        runs = _sort_lines(filtered, value, down=request.down) if column else sorted(filtered, key=prominence)
        part = _cut_page(runs, request.offset, partial(_run, listing))
    axes = [{"axis": axis, "name": short(axis)} for axis in listing.axes]
    return {"axes": axes, "runs": len(filtered), "all": len(listing.rows), **part}


def _cut_page(lines: Sequence[Line], offset: int, to_entry: Callable[[Line], object]) -> dict[str, object]:
    """Returns the page of PAGE_ROWS lines that holds line number `offset`, or the last page."""
    start = max(0, min(offset, (len(lines) - 1) // PAGE_ROWS * PAGE_ROWS)) // PAGE_ROWS * PAGE_ROWS
    page = [to_entry(line) for line in lines[start : start + PAGE_ROWS]]
    return {"lines": len(lines), "offset": start, "size": PAGE_ROWS, "page": page}


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


def _run(listing: Listing, row: ProgressRow) -> Json:
    names = ("signature", "seed", "state", "share", "examples", "total", "best", "best_examples", "reason")
    return {
        "label": listing.names[row.signature],
        "cell": {axis: axis_text(row.cell.get(axis)) for axis in listing.axes},
        **{name: getattr(row, name) for name in names},
    }


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
    return {
        "label": label(rows[0].cell, listing.axes),
        "cell": {axis: axis_text(rows[0].cell.get(axis)) for axis in listing.axes},
        "values": [rows[0].cell.get(axis) for axis in listing.axes],
        "states": dict(Counter(row.state for row in rows)),
        "share": sum(row.way for row in rows) / len(rows),
        "examples": sum(row.examples for row in rows),
        "n": len(scores),
        "best": mean,
        "sd": sd,
        "runs": sorted(members[:MEMBERS_SHOWN], key=lambda member: member["seed"]),
        "more": max(0, len(members) - MEMBERS_SHOWN),
    }


def _value_of_cell(column: str, line: Json) -> Any:
    return line.get(column) if column in RUN_COLUMNS else line["values"][list(line["cell"]).index(column)]


def _sort_lines(lines: Sequence[Line], value: Callable[[Line], Any], *, down: bool) -> list[Line]:
    """Returns lines sorted by a column: numbers, then words; lines without a value come last in either direction."""
    valued = [line for line in lines if value(line) is not None]
    keyed = sorted(valued, key=lambda line: _place(value(line)), reverse=down)
    return [*keyed, *(line for line in lines if value(line) is None)]


def _place(value: Any) -> tuple[int, float, str]:
    number = _number(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    return (0, number, "") if number is not None else (1, 0.0, str(value))


def prominence(row: ProgressRow) -> tuple[int, float]:
    """Returns the default sort key of a run: running runs first, then badly ended ones, then the best."""
    return STATE_ORDER.index(row.state), -(row.best or 0.0)


def figure(listing: Listing) -> dict[str, object]:
    """Returns every axis, and the mean score of each cell that has one, as data for slices and parallel coordinates.

    A value on an axis is a number, or its index among the axis's `words`; None if a cell has none.
    """
    cells = [line for line in _cells(listing, listing.rows) if line["best"] is not None]
    cells.sort(key=lambda line: -line["best"])
    if len(cells) > PLOTTED:
        best, other_cells = cells[: PLOTTED // 2], cells[PLOTTED // 2 :]
        cells = best + other_cells[:: math.ceil(len(other_cells) / (PLOTTED // 2))]
    return {
        "axes": [_axis(axis, [line["values"][place] for line in cells]) for place, axis in enumerate(listing.axes)],
        "cells": [{name: line[name] for name in ("label", "best", "sd", "n")} for line in cells],
    }


LOG_FROM = 10.0
"""Ratio of an axis's largest to its smallest positive value above which it is drawn on a log scale."""


def _axis(axis: str, values: Sequence[Any]) -> dict[str, object]:
    name = short(axis)
    present = [value for value in values if value is not None]
    numbers = [_number(value) for value in present if isinstance(value, int | float)]
    plain = [number for number in numbers if number is not None]
    if not plain or len(plain) < len(present):
        words = sorted({axis_text(value) for value in values})
        places = [words.index(axis_text(value)) for value in values]
        return {"axis": axis, "name": name, "log": False, "words": words, "values": places}
    log = min(plain) > 0 and max(plain) / min(plain) > LOG_FROM
    return {"axis": axis, "name": name, "log": log, "words": [], "values": [_number(value) for value in values]}
