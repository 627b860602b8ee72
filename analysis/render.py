"""A table as text: Markdown, LaTeX (booktabs) or JSON. Two decimals in text, full numbers in JSON."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from analysis.aggregate import Cell, Table

Format = Literal["md", "tex", "json"]
FORMATS: tuple[Format, ...] = ("md", "tex", "json")
SHA256 = re.compile(r"[0-9a-f]{64}")


def render(table: Table, format: Format = "md") -> str:
    """The table in one of three formats, ending in a newline."""
    assert format in FORMATS, format
    return {"md": _markdown, "tex": _latex, "json": _json}[format](table)


def as_dict(table: Table) -> dict[str, Any]:
    """The table in the shape of a space's `paper:` block, numbers in full."""
    return {
        "id": table.spec.id,
        "axes": list(table.spec.axes),
        "columns": list(table.spec.columns),
        "rows": [
            {"key": row.key, "cells": {column: _cell_dict(cell) for column, cell in row.cells.items()}}
            for row in table.rows
        ],
        "protocol": table.protocol,
    }


def _cell_dict(cell: Cell) -> dict[str, Any]:
    return {"n": cell.n, "mean": cell.mean, "sd": cell.sd, "published": cell.published, "delta": cell.delta}


def _json(table: Table) -> str:
    return json.dumps(as_dict(table), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


@dataclass(frozen=True)
class Markup:
    """How one text format writes the parts of a number and of a word."""

    bold: Callable[[str], str]
    spread: Callable[[str], str]
    escape: Callable[[str], str]
    minus: str
    delta: str
    none: str


MARKDOWN = Markup(
    bold=lambda text: f"**{text}**",
    spread=lambda text: f" ± {text}",
    escape=lambda text: text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " "),
    minus="-",
    delta="Δ",
    none="",
)

_LATEX_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "Δ": r"$\Delta$", "→": r"$\to$",
    "×": r"$\times$", "≥": r"$\ge$", "≤": r"$\le$", "·": r"$\cdot$", "λ": r"$\lambda$", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", "\n": " ",
}  # fmt: skip

LATEX = Markup(
    bold=lambda text: rf"\textbf{{{text}}}",
    spread=lambda text: rf"{{\scriptsize$\pm${text}}}",
    escape=lambda text: "".join(_LATEX_SPECIAL.get(letter, letter) for letter in text),
    minus="$-$",
    delta=r"$\Delta$",
    none="--",
)


def axis_text(value: object) -> str:
    """An axis value as a reader writes it: `off` for None, `yes`/`no`, numbers without a needless tail."""
    if value is None:
        return "off"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _grid(table: Table, markup: Markup) -> tuple[list[str], list[list[str]]]:
    """Header and body of the main part, every entry marked up."""
    spec = table.spec
    header = [*map(markup.escape, spec.axes), "n"]
    blocks = [
        [[markup.escape(axis_text(row.key[axis])) for axis in spec.axes] + [_count(row.cells)] for row in table.rows]
    ]
    for column in spec.columns:
        names, block = _column(table, column, markup)
        header += names
        blocks.append(block)
    return header, [[entry for part in parts for entry in part] for parts in zip(*blocks, strict=True)]


def _count(cells: Mapping[str, Cell]) -> str:
    """The number of seeds behind a row: one number where all its columns agree."""
    return "/".join(dict.fromkeys(str(cell.n) for cell in cells.values()))


def _column(table: Table, column: str, markup: Markup) -> tuple[list[str], list[list[str]]]:
    """Header and entries of one result: ours and, where the paper prints any, its value and the difference."""
    cells = [row.cells[column] for row in table.rows]
    best, name = _best(table, cells), markup.escape(column)
    ours = [[_number(cell, best, markup)] for cell in cells]
    published = [cell.published for cell in cells if cell.published is not None]
    if not published:
        return [name], ours
    decimals = max(_decimals(value) for value in published)
    theirs = [[_fixed(cell.published, decimals, markup), _signed(cell.delta, markup)] for cell in cells]
    return [name, f"{name} paper", markup.delta], [left + right for left, right in zip(ours, theirs, strict=True)]


def _best(table: Table, cells: Sequence[Cell]) -> str | None:
    """The column's best mean as printed, so that ties in print are all bold."""
    means = [cell.mean for cell in cells if cell.mean is not None]
    if len(means) < 2 or table.spec.best == "none":
        return None
    return f"{max(means) if table.spec.best == 'max' else min(means):.2f}"


def _number(cell: Cell, best: str | None, markup: Markup) -> str:
    if cell.mean is None:
        return markup.none
    text = f"{cell.mean:.2f}"
    shown = _fixed(cell.mean, 2, markup)
    spread = "" if cell.sd is None else markup.spread(f"{cell.sd:.2f}")
    return (markup.bold(shown) if text == best else shown) + spread


def _decimals(value: float) -> int:
    """Decimals that the paper printed, at most two."""
    return min(2, len(f"{value:.10g}".partition(".")[2]))


def _fixed(value: float | None, decimals: int, markup: Markup) -> str:
    return markup.none if value is None else f"{value:.{decimals}f}".replace("-", markup.minus)


def _signed(value: float | None, markup: Markup) -> str:
    return markup.none if value is None else f"{value:+.2f}".replace("-", markup.minus)


def _remarks(table: Table) -> list[str]:
    """Lines under a table: source, protocol, notes."""
    spec = table.spec
    source = ". ".join(part for part in (spec.citation, spec.metric) if part)
    protocol = ", ".join(f"{name} {_digits(axis_text(value))}" for name, value in table.protocol.items())
    lines = [source, f"Protocol: {protocol}" if protocol else "", *table.notes]
    return [line for line in lines if line]


def _digits(text: str) -> str:
    """The first digits of a SHA-256; JSON keeps them all."""
    return text[:12] if SHA256.fullmatch(text) else text


def _baseline_grid(table: Table, markup: Markup) -> tuple[list[str], list[list[str]]]:
    columns = table.spec.columns
    body = [
        [markup.escape(row.label), *(_fixed(row.cells.get(column), 2, markup) for column in columns)]
        for row in table.baselines
    ]
    return ["without training", *map(markup.escape, columns)], body


def _title(table: Table) -> str:
    return " · ".join(part for part in (table.spec.id, table.spec.title) if part)


def _markdown(table: Table) -> str:
    texts = len(table.spec.axes)
    parts = [f"**{MARKDOWN.escape(_title(table))}**", aligned(*_grid(table, MARKDOWN), texts)]
    if table.baselines:
        parts.append(aligned(*_baseline_grid(table, MARKDOWN), 1))
    parts.append("\n".join(f"- {line}" for line in _remarks(table)))
    return "\n\n".join(part for part in parts if part) + "\n"


def aligned(header: list[str], body: list[list[str]], texts: int) -> str:
    """A Markdown table with columns of equal width: the first `texts` to the left, numbers to the right."""
    widths = [max(3, *(len(line[index]) for line in [header, *body])) for index in range(len(header))]
    rule = ["-" * width if index < texts else "-" * (width - 1) + ":" for index, width in enumerate(widths)]

    def line(entries: Sequence[str]) -> str:
        padded = (
            entry.ljust(width) if index < texts else entry.rjust(width)
            for index, (entry, width) in enumerate(zip(entries, widths, strict=True))
        )
        return "| " + " | ".join(padded) + " |"

    return "\n".join(line(entries) for entries in [header, rule, *body])


def _latex(table: Table) -> str:
    header, body = _grid(table, LATEX)
    texts = len(table.spec.axes)
    lines = [r"\begin{table}[t]", r"\centering", rf"\caption{{{_latex_caption(table)}}}"]
    lines += [rf"\label{{tab:{''.join(letter for letter in table.spec.id if letter.isalnum() or letter in '-_')}}}"]
    lines += _tabular(header, body, texts)
    if table.baselines:
        lines += [r"\\[1ex]", *_tabular(*_baseline_grid(table, LATEX), 1)]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def _latex_caption(table: Table) -> str:
    sentences = [line.rstrip(".") + "." for line in (_title(table), *_remarks(table))]
    return " ".join(LATEX.escape(sentence) for sentence in sentences)


def _tabular(header: list[str], body: list[list[str]], texts: int) -> list[str]:
    columns = "l" * texts + "r" * (len(header) - texts)
    rows = [" & ".join(entries) + r" \\" for entries in body]
    head = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", " & ".join(header) + r" \\", r"\midrule"]
    return [*head, *rows, r"\bottomrule", r"\end{tabular}"]
