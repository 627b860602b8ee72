"""A table in the paper's layout: entries hold our value, the paper's and the difference, of which radios show one."""

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
"""The column over all others stands first, where nothing cuts it off."""


@dataclass(frozen=True)
class Value:
    """One entry; each text may be empty."""

    ours: str
    paper: str = ""
    delta: str = ""
    verdict: str = ""
    tone: str = ""
    anchor: str = ""
    """The place on the page where the runs behind it stand."""
    from_reference: str = ""
    """At another scale: our difference from the row of reference, and the paper's."""


@dataclass(frozen=True)
class SheetRow:
    """One row; `is_ours` where it is trained here."""

    keys: Sequence[str]
    seeds: str
    values: Sequence[Value]
    is_ours: bool
    is_idle: bool
    """Not run, in a table of which other rows are: folded until somebody asks."""


@dataclass(frozen=True)
class SheetTable:
    """A table as its page shows it."""

    caption: str
    axes: Sequence[str]
    columns: Sequence[str]
    has_seeds: bool
    rows: Sequence[SheetRow]
    """In the paper's order, those that are not trained last."""
    baselines: Sequence[Sequence[str]]
    """Our rows without training, which start where the runs start: a name, and a score for each column."""

    @property
    def idle(self) -> int:
        """How many rows are folded."""
        return sum(row.is_idle for row in self.rows)


def values(table: Table) -> list[dict[str, Value]]:
    """Column -> entry for every line of the table, the rows that are not trained last."""
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
    """The place on the page where the runs behind an entry stand."""
    return f"{folder_name(scale)}-{row + 1}-{slug(column)}"


def sheet_table(sheet: Sheet, table: Table, verdicts: Verdicts, scale: Scale | None) -> SheetTable:
    """The table; entries of ours lead to the runs behind them."""
    ours, texts = len(table.rows), text_columns(table)
    header, body = grid(table, HTML)
    columns = sorted(table.spec.columns, key=lambda column: column != MEAN)
    lines = [{column: line[column] for column in columns} for line in values(table)]
    places = list(map(list(table.spec.columns).index, columns))
    some_run = any(value.ours for line in lines[:ours] for value in line.values())
    rows = []
    for index, (printed, line) in enumerate(zip(body, lines, strict=True)):
        keys = printed[:texts]
        if sheet.names:
            keys = [sheet.row_name(table.rows[index])] if index < ours else keys[:1]
        entries = [
            _add_verdict(value, verdicts.get((index, column)), index, column, scale) for column, value in line.items()
        ]
        is_ours = index < ours
        is_idle = is_ours and some_run and not any(value.ours for value in line.values())
        rows.append(SheetRow(keys, printed[texts], entries, is_ours, is_idle))
    return SheetTable(
        caption=". ".join(part for part in (sheet.where, sheet.metric) if part),
        axes=["row"] if sheet.names else header[:texts],
        columns=columns,
        has_seeds=scale is not None,
        rows=[*(rows[index] for index in sheet.order(table)), *rows[ours:]],
        baselines=[[line[0], *(line[place + 1] for place in places)] for line in baseline_grid(table, HTML)[1]],
    )


def _add_verdict(value: Value, verdict: Verdict | None, row: int, column: str, scale: Scale | None) -> Value:
    """With what is said of it, and where it leads."""
    if value.ours and scale is not None and row < len(scale.table.rows):
        value = replace(value, anchor=anchor(scale.name, row, column))
    if verdict is None:
        return value
    differs = ""
    if scale is not None and not scale.same and verdict.interval is not None:
        ours = sum(verdict.interval) / 2
        differs = f"{ours:+.2f} from ○, paper {verdict.published:+.6g}".replace("-", "−")
    return replace(value, verdict=verdict.word, tone=tone(verdict.word), from_reference=differs)
