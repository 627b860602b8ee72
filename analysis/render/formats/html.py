"""An HTML fragment that escapes every text; the words for verdicts and order are counted in the list below."""

import html
from collections.abc import Sequence

from analysis.render.grid import baseline_grid, difference_line, grid, remark_lines, text_columns, title
from analysis.render.markup import Markup, plain_text
from analysis.render.verdicts import with_summary
from analysis.tables.aggregate import Table
from analysis.tables.ordering import Ordering
from analysis.tables.verdict import Verdicts

HTML = Markup(
    bold=lambda text: f"<strong>{text}</strong>",
    underline=lambda text: f"<u>{text}</u>",
    spread=lambda text: f"<small> ± {text}</small>",
    escape=lambda text: html.escape(plain_text(text)),
    minus="−",
    delta="Δ",
    none="",
)


def render(table: Table, verdicts: Verdicts | None, ordering: Sequence[Ordering] | None) -> str:
    """The table with its caption, the rows without training, the remarks as a list."""
    table = with_summary(table, verdicts, ordering)
    caption = "<br>".join(HTML.escape(line) for line in (title(table), difference_line(table)) if line)
    parts = [_part(*grid(table, HTML), text_columns(table), caption)]
    if table.baselines:
        parts.append(_part(*baseline_grid(table, HTML), 1, "Without training"))
    lines = [f"<li>{HTML.escape(line)}</li>" for line in remark_lines(table)]
    return "\n".join([*parts, *(["<ul>", *lines, "</ul>"] if lines else [])]) + "\n"


def _part(header: list[str], body: list[list[str]], texts: int, caption: str) -> str:
    """Entries are marked up already; the first `texts` columns head their rows."""
    head = "".join(
        f'<th scope="col" class="text">{entry}</th>' if i < texts else f'<th scope="col">{entry}</th>'
        for i, entry in enumerate(header)
    )
    rows = [
        "".join(f'<th scope="row">{entry}</th>' if i < texts else f"<td>{entry}</td>" for i, entry in enumerate(line))
        for line in body
    ]
    lines = [f"<caption>{caption}</caption>", f"<thead><tr>{head}</tr></thead>", "<tbody>"]
    return "\n".join(["<table>", *lines, *(f"<tr>{row}</tr>" for row in rows), "</tbody>", "</table>"])
