"""Page of one table: its verdicts, the table as the paper prints it, pictures, and the runs behind every entry."""

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
    """Lines on the order of rows by one column."""

    column: str
    first: str
    more: Sequence[str]


@dataclass(frozen=True)
class ScaleSection:
    """Section of a page on one scale: the table, its pictures, and the runs."""

    scale: Scale
    facts: str
    differing: str
    """Line on settings, other than the axes, in which rows differ."""
    table: SheetTable
    legend: Mapping[str, str]
    """Verdict in the table -> its colour class."""
    downloads: Mapping[str, str]
    """Format of a download -> file name."""
    pictures: Mapping[str, Sequence[markupsafe.Markup]]
    """Column -> pictures."""
    orders: Sequence[OrderLines]
    """Lines on the order of rows by each column; empty where no column has an order to compare."""
    rows: Sequence[RowRuns]
    remarks: Sequence[str]


def page(sheet: Sheet, before: Sheet | None, after: Sheet | None) -> str:
    """Returns the HTML of tables/ID.html; equal tables give equal text."""
    conclusions = [scale.headline.partition(": ")[2] or sheet.state.text for scale in sheet.scales]
    at = f" at {sheet.main.title}" if sheet.main else ""
    return fill(
        "cse/site/page.html",
        sheet=sheet,
        before=before,
        after=after,
        headline=f"{sheet.id}{at}: {conclusions[0] if conclusions else sheet.state.text}",
        others=[(scale, text.partition(";")[0]) for scale, text in zip(sheet.scales[1:], conclusions[1:], strict=True)],
        cite=read(sheet.citation, sheet.source) if sheet.citation else None,
        sections=[_section(sheet, scale) for scale in sheet.scales],
        printed=sheet_table(sheet, sheet.layout, {}, None),
    )


def _section(sheet: Sheet, scale: Scale) -> ScaleSection:
    words = {verdict.word for verdict in scale.verdicts.values()}
    return ScaleSection(
        scale=scale,
        facts=_facts(sheet, scale),
        differing=difference_line(scale.table),
        table=sheet_table(sheet, scale.table, scale.verdicts, scale),
        legend={word: tone(word) for word in GLYPHS if word in words},
        downloads={suffix: file_name(sheet, scale, suffix) for suffix in scale.files},
        pictures=plot_columns(sheet, scale),
        orders=_orders(sheet, scale),
        rows=list_runs(sheet, scale),
        remarks=remark_lines(scale.table),
    )


def _facts(sheet: Sheet, scale: Scale) -> str:
    scope = "The paper's own settings" if scale.same else "Not the paper's scale"
    scope = scope if sheet.citation else "No paper's table"
    differences = f": {tell_unlike(scale.unlike)}" if scale.unlike and sheet.citation else ""
    runs = f"{number_of(scale.spent.runs, 'run')}, {number_of(scale.seeds, 'seed')}"
    return f"{scope}{differences}. {runs}, {duration(scale.spent.seconds)} of runs in sum"


def _orders(sheet: Sheet, scale: Scale) -> list[OrderLines]:
    if all(order.tau is None for order in scale.ordering):
        return []
    names = [sheet.row_name(row) for row in scale.table.rows]
    lines_by_column = [(order.column, order_said(order, names)) for order in scale.ordering]
    return [OrderLines(column, lines[0], lines[1:]) for column, lines in lines_by_column]


def file_name(sheet: Sheet, scale: Scale, suffix: str) -> str:
    """Returns the file name of a download, beside the page."""
    return f"{sheet.file}-{scale.file}.{suffix}"


def neighbours(sheets: Sequence[Sheet], place: int) -> tuple[Sheet | None, Sheet | None]:
    """Returns the tables before and after one in the order of the overview."""
    return (sheets[place - 1] if place else None), (sheets[place + 1] if place + 1 < len(sheets) else None)
