"""Rows of a command's output as a table that fits the terminal, as aligned text, or as JSON; units of time and size."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import typer

from analysis.documents import convert_row, dump_json
from analysis.render.markup import pad_columns
from cse.cli import screen
from cse_train.reading import plain_text

Format = Literal["text", "json"]
"""Output formats of a listing."""

FormatOption = Annotated[Format, typer.Option("--format", help="text for people, json for programs.")]


POINT_DIGITS = 2
"""Decimals of a score in points, where a metric's range has a hundred."""


class Rounded(float):
    """A float with the number of decimals to print, which the metric's scale decides: four for a range from 0 to 1."""

    digits: int

    def __new__(cls, value: float, digits: int) -> "Rounded":
        number = super().__new__(cls, value)
        number.digits = digits
        return number


def listing(rows: Sequence[object], form: Format, empty: str, spare: Sequence[str] = ()) -> str:
    """Returns rows as a JSON object with `rows`, or as text columns; in text, `empty` replaces a table without rows.

    `spare`: columns that a narrow terminal may leave out, the first first.
    """
    if form == "json":
        return dump_json(rows)
    return align_rows(rows, spare) if rows else empty


def align_rows(answers: Sequence[object], spare: Sequence[str] = ()) -> str:
    """Returns rows, dataclasses or mappings, as aligned columns with the first row's keys as the head, and numbers to
    the right.

    On a terminal the table has its width, and `spare` columns are left out where they do not fit; elsewhere each column
    is as wide as its widest entry.
    """
    rows = [convert_row(answer) for answer in answers]
    names = list(rows[0])
    entries = [[_write_entry(row[name]) for name in names] for row in rows]
    right = [all(isinstance(row[name], int | float) or row[name] is None for row in rows) for name in names]
    columns = screen.width()
    if columns is not None:
        cells = [
            [screen.colour_word(entry) if entry in screen.STATE_COLOURS else entry for entry in line]
            for line in entries
        ]
        return screen.fit_table(names, cells, right, columns, spare)
    return "\n".join("  ".join(line).rstrip() for line in pad_columns([names, *entries], right))


def _write_entry(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, Rounded) and value.digits != POINT_DIGITS:
        return f"{value:.{value.digits}f}"
    return number(value) if isinstance(value, float) else plain_text(str(value))


def number(value: float) -> str:
    """Formats a float with two decimals; below 0.01 and from a million on, with four significant digits."""
    return f"{value:.2f}" if not value or 0.01 <= abs(value) < 1e6 else f"{value:.4g}"


def duration(seconds: float | None) -> str:
    """Formats seconds as `40 s`, `12 min`, `3.4 h` or `12 d`; `unknown` for None."""
    if seconds is None:
        return "unknown"
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}" if seconds < 10 * length else f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def size(count: int) -> str:
    """Formats bytes in MB or GB: `0 MB`, `1.3 MB`, `250 MB`, `1.2 GB`."""
    if count >= 1e9:
        return f"{count / 1e9:.1f} GB"
    return f"{count / 1e6:.1f} MB" if 0 < count < 1e7 else f"{count / 1e6:.0f} MB"
