"""A table in the paper's layout; each entry has the measured value, the paper's and the difference."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from analysis.render.formats.html import HTML
from analysis.render.grid import baseline_grid, grid, text_columns
from analysis.report.facts import folder_name, slug
from analysis.tables.aggregate import Table
from analysis.tables.columns import Verdict
from analysis.tables.verdict import Verdicts
from cse.site.content import Scale, Sheet, tone

MEAN = "avg"
"""Column of averages over all others; it comes first, where nothing cuts it off."""


@dataclass(frozen=True)
class Value:
    """One entry of a table, as texts; each may be empty."""

    ours: str
    paper: str = ""
    delta: str = ""
    verdict: str = ""
    tone: str = ""
    anchor: str = ""
    """Anchor of the runs behind the value, on the same page."""
    from_reference: str = ""
    """Difference from the reference row, measured and in the paper; only at another scale than the paper's."""


@dataclass(frozen=True)
class SheetRow:
    """One row of a table on the site; `is_ours` is True for a row that cse-search trained."""

    keys: Sequence[str]
    seeds: str
    values: Sequence[Value]
    is_ours: bool
    is_idle: bool
    """True for a row that was not run, in a table with others that were: it is folded."""


@dataclass(frozen=True)
class SheetTable:
    """A results table in the form that its page shows."""

    caption: str
    axes: Sequence[str]
    columns: Sequence[str]
    has_seeds: bool
    rows: Sequence[SheetRow]
    """Rows in the paper's order, then those that are not trained."""
    baselines: Sequence[Sequence[str]]
    """Rows without training, by which runs start: a name, and a score for each column."""

    @property
    def idle(self) -> int:
        """Returns the number of folded rows."""
        return sum(row.is_idle for row in self.rows)


def values(table: Table) -> list[dict[str, Value]]:
    """Returns column -> entry for every line of the table; rows that are not trained come last."""
    header, body = grid(table, HTML)
    first = text_columns(table) + 1
    starts: dict[str, tuple[int, int]] = {}
    place = first
    for column in table.spec.columns:
        width = 3 if header[place + 1 : place + 2] == [f"{column} paper"] else 1
        starts[column] = (place, width)
        place += width
    return [{name: Value(*line[start : start + width]) for name, (start, width) in starts.items()} for line in body]


def anchor(scale: str, row: int, column: str) -> str:
    """Returns the anchor of the runs behind an entry."""
    return f"{folder_name(scale)}-{row + 1}-{slug(column)}"


def sheet_table(sheet: Sheet, table: Table, verdicts: Verdicts, scale: Scale | None) -> SheetTable:
    """Returns the table for its page; measured values link to the runs behind them."""
    own_rows, texts = len(table.rows), text_columns(table)
    header, body = grid(table, HTML)
    columns = sorted(table.spec.columns, key=lambda column: column != MEAN)
    lines = [{column: line[column] for column in columns} for line in values(table)]
    places = list(map(list(table.spec.columns).index, columns))
    some_run = any(value.ours for line in lines[:own_rows] for value in line.values())
    rows = []
    for index, (printed, line) in enumerate(zip(body, lines, strict=True)):
        keys = printed[:texts]
        if sheet.names:
            keys = [sheet.row_name(table.rows[index])] if index < own_rows else keys[:1]
        entries = [
            _add_verdict(value, verdicts.get((index, column)), index, column, scale) for column, value in line.items()
        ]
        is_ours = index < own_rows
        is_idle = is_ours and some_run and not any(value.ours for value in line.values())
        rows.append(SheetRow(keys, printed[texts], entries, is_ours, is_idle))
    return SheetTable(
        caption=". ".join(part for part in (sheet.where, sheet.metric) if part),
        axes=["row"] if sheet.names else header[:texts],
        columns=columns,
        has_seeds=scale is not None,
        rows=[*(rows[index] for index in sheet.order(table)), *rows[own_rows:]],
        baselines=[[line[0], *(line[place + 1] for place in places)] for line in baseline_grid(table, HTML)[1]],
    )


def _add_verdict(value: Value, verdict: Verdict | None, row: int, column: str, scale: Scale | None) -> Value:
    """Returns the entry with its verdict and its link."""
    if value.ours and scale is not None and row < len(scale.table.rows):
        value = replace(value, anchor=anchor(scale.name, row, column))
    if verdict is None:
        return value
    from_reference = ""
    if scale is not None and not scale.same and verdict.interval is not None:
        mean = sum(verdict.interval) / 2
        from_reference = f"{mean:+.2f} from ○, paper {verdict.published:+.6g}".replace("-", "−")
    return replace(value, verdict=verdict.word, tone=tone(verdict.word), from_reference=from_reference)
