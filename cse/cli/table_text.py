"""Results tables as text: as wide as the terminal, or as Markdown for a file or a pipe."""

from collections.abc import Sequence
from typing import Annotated

import typer

from analysis.answers.judge import Verdicts
from analysis.render.formats import names, render
from analysis.render.grid import baseline_grid, difference_line, grid, remark_lines, text_columns, title
from analysis.render.markup import Markup
from analysis.render.verdicts import order_lines
from analysis.tables.aggregate import Table
from analysis.tables.labels import label
from analysis.tables.ordering import Ordering
from cse.cli import options, screen

TableFormat = Annotated[
    str | None,
    typer.Option(
        "--format",
        parser=options.choice("format", names()),
        metavar="|".join(names()),
        help="Markdown, LaTeX, CSV, HTML or JSON (default: md; at a terminal as wide as that).",
    ),
]


def escape(text: str) -> str:
    """Escapes a text for use in Rich's markup."""
    from rich.markup import escape as escaped

    return escaped(text)


TERMINAL = Markup(
    bold=lambda text: f"[bold green]{text}[/]",
    underline=lambda text: f"[underline]{text}[/]",
    spread=lambda text: f" ±\u00a0{text}",
    escape=escape,
    minus="-",
    delta="Δ",
    none="",
)


def show_table(table: Table, verdicts: Verdicts | None = None, ordering: Sequence[Ordering] | None = None) -> str:
    """Returns a results table with its title, remarks and verdicts: as wide as the terminal, else as Markdown.

    The text ends in a newline.
    """
    columns = screen.width()
    if columns is None:
        return render(table, "md", verdicts, ordering)
    header, body = grid(table, TERMINAL)
    keys = text_columns(table) + 1
    if screen.least_width(header[:keys], [line[:keys] for line in body]) > columns / 2:
        # Many axes as one column of `axis=value` words; rows of the paper alone have their name there already.
        own_names = [escape(label(row.key, table.named)) for row in table.rows]
        row_names = [*own_names, *(line[0] for line in body[len(own_names) :])]
        header = ["row", *header[keys - 1 :]]
        body = [[name, *line[keys - 1 :]] for name, line in zip(row_names, body, strict=True)]
        keys = 2
    parts = [screen.bold(title(table)), screen.prose(difference_line(table)), _part(header, body, keys, columns)]
    if table.baselines:
        parts.append(_part(*baseline_grid(table, TERMINAL), 1, columns))
    parts.append(list_lines(remark_lines(table)))
    if verdicts:
        parts += [screen.bold("Verdicts"), _verdicts(table, verdicts, columns)]
    lines = order_lines(table, ordering or ())
    parts += [screen.bold("Order of the rows"), list_lines(lines)] if lines else []
    return "\n\n".join(part for part in parts if part) + "\n"


def _part(header: list[str], body: list[list[str]], keys: int, columns: int) -> str:
    """Renders the grid of a table; a published value and its difference stay beside the column before them."""
    names = [name.rpartition(".")[2] if i < keys else name for i, name in enumerate(header)]
    names = [str(screen.parse_markup(name)) for name in names]
    groups: list[int] = []
    for name in names[keys:]:
        if groups and (name.endswith(" paper") or name == TERMINAL.delta):
            groups[-1] += 1
        else:
            groups.append(1)
    return screen.blocks(
        names, [[screen.parse_markup(entry) for entry in line] for line in body], keys, groups, columns
    )


def _verdicts(table: Table, verdicts: Verdicts, columns: int) -> str:
    body: list[list[screen.Entry]] = [
        [label(table.rows[index].key, table.named), column, screen.colour_word(verdict.word), verdict.reason]
        for (index, column), verdict in verdicts.items()
    ]
    return screen.fit_table(["row", "column", "verdict", "why"], body, [False] * 4, columns)


def list_lines(lines: Sequence[str]) -> str:
    """Returns the lines with a dash before each, wrapped at the terminal's width."""
    return "\n".join(screen.prose(f"- {line}", indent="  ") for line in lines)
