"""HTML format: a fragment that escapes every text; verdicts and order are counted in the list below the table."""

from collections.abc import Sequence
from dataclasses import dataclass

import markupsafe

from analysis.answers.judge import Verdicts
from analysis.render.grid import baseline_grid, difference_line, grid, remark_lines, text_columns, title
from analysis.render.markup import Markup
from analysis.render.templates import fill
from analysis.render.verdicts import add_summary
from analysis.tables.aggregate import Table
from analysis.tables.ordering import Ordering

HTML = Markup(
    bold=markupsafe.Markup("<strong>{}</strong>").format,
    underline=markupsafe.Markup("<u>{}</u>").format,
    spread=markupsafe.Markup("<small> ± {}</small>").format,
    escape=str,
    minus="−",
    delta="Δ",
    none="",
)
"""Markup of entries for templates, which escape all that is not marked up here."""


@dataclass(frozen=True)
class Part:
    """One `<table>`; the first `texts` columns are row headers."""

    header: Sequence[str]
    body: Sequence[Sequence[str]]
    texts: int
    caption: Sequence[str]
    """Lines of the caption."""


def render(table: Table, verdicts: Verdicts | None, ordering: Sequence[Ordering] | None) -> markupsafe.Markup:
    """Returns the table with its caption, the baseline rows, and the remarks as a list."""
    table = add_summary(table, verdicts, ordering)
    caption = [line for line in (title(table), difference_line(table)) if line]
    parts = [Part(*grid(table, HTML), text_columns(table), caption)]
    if table.baselines:
        parts.append(Part(*baseline_grid(table, HTML), 1, ["Without training"]))
    return fill("analysis/render/formats/table.html", parts=parts, remarks=remark_lines(table))
