"""Markdown format; verdicts and order come below the table."""

from collections.abc import Sequence

from analysis.answers.judge import Verdicts
from analysis.render.grid import baseline_grid, difference_line, grid, remark_lines, text_columns, title
from analysis.render.markup import MARKDOWN, align_table
from analysis.render.signs import sign_word
from analysis.render.verdicts import order_lines
from analysis.tables.aggregate import Table
from analysis.tables.labels import axis_text
from analysis.tables.ordering import Ordering


def render(table: Table, verdicts: Verdicts | None, ordering: Sequence[Ordering] | None) -> str:
    above = [f"**{MARKDOWN.escape(title(table))}**", MARKDOWN.escape(difference_line(table))]
    parts = [*above, align_table(*grid(table, MARKDOWN), text_columns(table))]
    if table.baselines:
        parts.append(align_table(*baseline_grid(table, MARKDOWN), 1))
    parts.append("\n".join(f"- {line}" for line in remark_lines(table)))
    parts += _verdicts(table, verdicts or {})
    lines = [f"- {MARKDOWN.escape(line)}" for line in order_lines(table, ordering or ())]
    parts += ["**Order of the rows**", "\n".join(lines)] if lines else []
    return "\n\n".join(part for part in parts if part) + "\n"


def _verdicts(table: Table, verdicts: Verdicts) -> list[str]:
    """Returns a heading and a line per verdict; empty for none."""
    axes = table.spec.axes
    header = [*map(MARKDOWN.escape, axes), "column", "verdict", "why"]
    body = [
        [
            *(MARKDOWN.escape(axis_text(table.rows[index].key[axis])) for axis in axes),
            *(MARKDOWN.escape(text) for text in (column, sign_word(verdict.word), verdict.reason)),
        ]
        for (index, column), verdict in verdicts.items()
    ]
    return ["**Verdicts**", align_table(header, body, len(header))] if verdicts else []
