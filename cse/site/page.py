"""A table's page: its verdict first, the table as the paper prints it, pictures, and the runs behind every entry."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import markupsafe

from analysis.answers.paper_scale import tell_unlike
from analysis.render.grid import difference_line, remark_lines
from analysis.render.signs import GLYPHS
from analysis.render.templates import fill
from analysis.render.verdicts import order_said
from analysis.tables.labels import duration, number_of
from cse.site.citation import read
from cse.site.content import Scale, Sheet, tone
from cse.site.grid import SheetTable, sheet_table
from cse.site.plots import plot_columns
from cse.site.runs import RowRuns, list_runs


@dataclass(frozen=True)
class OrderLines:
    """What is said of the order of rows in a column."""

    column: str
    first: str
    more: Sequence[str]


@dataclass(frozen=True)
class ScaleSection:
    """One section of the page: the table, its pictures, the runs."""

    scale: Scale
    facts: str
    differing: str
    """In what rows differ beside the axes."""
    table: SheetTable
    legend: Mapping[str, str]
    """The verdicts that stand in the table -> their colours."""
    downloads: Mapping[str, str]
    """Suffix -> file."""
    pictures: Mapping[str, Sequence[markupsafe.Markup]]
    """Column -> pictures."""
    orders: Sequence[OrderLines]
    """Of each column; none where no column has an order to compare."""
    rows: Sequence[RowRuns]
    remarks: Sequence[str]


def page(sheet: Sheet, before: Sheet | None, after: Sheet | None) -> str:
    """tables/ID.html; equal sheets give equal text."""
    said = [scale.headline.partition(": ")[2] or sheet.state.text for scale in sheet.scales]
    at = f" at {sheet.main.title}" if sheet.main else ""
    return fill(
        "cse/site/page.html",
        sheet=sheet,
        before=before,
        after=after,
        headline=f"{sheet.id}{at}: {said[0] if said else sheet.state.text}",
        others=[(scale, text.partition(";")[0]) for scale, text in zip(sheet.scales[1:], said[1:], strict=True)],
        cite=read(sheet.citation, sheet.source) if sheet.citation else None,
        sections=[_section(sheet, scale) for scale in sheet.scales],
        printed=sheet_table(sheet, sheet.layout, {}, None),
    )


def _section(sheet: Sheet, scale: Scale) -> ScaleSection:
    said = {verdict.word for verdict in scale.verdicts.values()}
    return ScaleSection(
        scale=scale,
        facts=_facts(sheet, scale),
        differing=difference_line(scale.table),
        table=sheet_table(sheet, scale.table, scale.verdicts, scale),
        legend={word: tone(word) for word in GLYPHS if word in said},
        downloads={suffix: file_name(sheet, scale, suffix) for suffix in scale.files},
        pictures=plot_columns(sheet, scale),
        orders=_orders(sheet, scale),
        rows=list_runs(sheet, scale),
        remarks=remark_lines(scale.table),
    )


def _facts(sheet: Sheet, scale: Scale) -> str:
    same = "The paper's own settings" if scale.same else "Not the paper's scale"
    same = same if sheet.citation else "No paper's table"
    how = f": {tell_unlike(scale.unlike)}" if scale.unlike and sheet.citation else ""
    runs = f"{number_of(scale.spent.runs, 'run')}, {number_of(scale.seeds, 'seed')}"
    return f"{same}{how}. {runs}, {duration(scale.spent.seconds)} of runs in sum"


def _orders(sheet: Sheet, scale: Scale) -> list[OrderLines]:
    if all(order.tau is None for order in scale.ordering):
        return []
    names = [sheet.row_name(row) for row in scale.table.rows]
    said = [(order.column, order_said(order, names)) for order in scale.ordering]
    return [OrderLines(column, lines[0], lines[1:]) for column, lines in said]


def file_name(sheet: Sheet, scale: Scale, suffix: str) -> str:
    """A download's name beside the page."""
    return f"{sheet.file}-{scale.file}.{suffix}"


def neighbours(sheets: Sequence[Sheet], place: int) -> tuple[Sheet | None, Sheet | None]:
    """The tables before and after one."""
    return (sheets[place - 1] if place else None), (sheets[place + 1] if place + 1 < len(sheets) else None)
