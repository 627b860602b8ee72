"""A table as text: Markdown, LaTeX (booktabs), HTML with two decimals or the paper's, CSV and JSON in full."""

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from analysis.render import verdicts as verdict_text
from analysis.render.markup import HTML, LATEX, MARKDOWN, Markup, aligned
from analysis.render.published import REFERENCE, SIC, misprints, remarks
from analysis.tables.aggregate import Cell, Table
from analysis.tables.labels import axis_text
from analysis.tables.ordering import Ordering
from analysis.tables.spec import identify
from analysis.tables.verdict import Verdicts

Format = Literal["md", "tex", "csv", "html", "json"]
FORMATS: tuple[Format, ...] = ("md", "tex", "csv", "html", "json")
NO_AXES = "model"
"""Heads the names of a table whose rows are all the paper's."""
SHA256 = re.compile(r"[0-9a-f]{64}")


def render(
    table: Table,
    format: Format = "md",
    verdicts: Verdicts | None = None,
    ordering: Sequence[Ordering] | None = None,
) -> str:
    """The table in one of the formats, ending in a newline; HTML is a fragment that escapes every text.

    What is said of it stands below in Markdown, under its own keys in JSON, counted in the remarks of LaTeX and HTML.
    """
    assert format in FORMATS, format
    if verdicts is None and ordering is None:
        return {"md": _markdown, "tex": _latex, "csv": _csv, "html": _html, "json": _json}[format](table)
    said = (table, verdicts or {}, ordering or ())
    if format == "md":
        return "\n".join(part for part in (_markdown(table), verdict_text.markdown(*said)) if part)
    if format == "json":
        return _json_text(as_dict(table) | verdict_text.as_dict(*said))
    return render(replace(table, notes=[*table.notes, *verdict_text.summary(*said)]), format)


def as_dict(table: Table) -> dict[str, Any]:
    """The table in the shape of a space's `paper:` block, numbers in full."""
    wrong = misprints(table.spec)
    return {
        "id": table.spec.id,
        "axes": list(table.spec.axes),
        "columns": list(table.spec.columns),
        "rows": [
            {"key": row.key, "cells": _cell_dicts(row.cells, wrong.get(identify(row.key), {}))} for row in table.rows
        ],
        "references": list(table.spec.references),
        "protocol": table.protocol,
    }


def _cell_dicts(cells: Mapping[str, Cell], wrong: Mapping[str, float]) -> dict[str, dict[str, Any]]:
    """Column -> the cell; of a misprint also what it should read."""
    right = {column: {"recomputed": wrong[column]} if column in wrong else {} for column in cells}
    return {column: _cell_dict(cell) | right[column] for column, cell in cells.items()}


def _cell_dict(cell: Cell) -> dict[str, Any]:
    return {"n": cell.n, "mean": cell.mean, "sd": cell.sd, "published": cell.published, "delta": cell.delta}


def _json(table: Table) -> str:
    return _json_text(as_dict(table))


def _json_text(found: Mapping[str, Any]) -> str:
    return json.dumps(found, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _grid(table: Table, markup: Markup) -> tuple[list[str], list[list[str]]]:
    """Header and body of the main part, every entry marked up; rows of the paper alone come last."""
    spec = table.spec
    header = [*map(markup.escape, spec.axes or [NO_AXES]), "n"]
    rows = [[markup.escape(axis_text(row.key[axis])) for axis in spec.axes] + [_count(row.cells)] for row in table.rows]
    rows += [[markup.escape(REFERENCE + row["label"]), *[""] * _texts(table)] for row in spec.references]
    blocks = [rows]
    for column in spec.columns:
        names, block = _column(table, column, markup)
        header += names
        blocks.append(block)
    return header, [[entry for part in parts for entry in part] for parts in zip(*blocks, strict=True)]


def _texts(table: Table) -> int:
    """Columns that say what a row is: the axes, or the name alone where nothing varies."""
    return max(1, len(table.spec.axes))


def _count(cells: Mapping[str, Cell]) -> str:
    """The number of seeds behind a row: one number where all its columns agree."""
    return "/".join(dict.fromkeys(str(cell.n) for cell in cells.values()))


def _column(table: Table, column: str, markup: Markup) -> tuple[list[str], list[list[str]]]:
    """Header and entries of one result: ours and, where the paper prints any, its value and the difference."""
    cells = [row.cells[column] for row in table.rows]
    printed, name = _printed(table, column), markup.escape(column)
    decimals = max((_decimals(value) for value, _ in printed if value is not None), default=None)
    places = max(2, decimals or 0)
    ranks = _ranks(table, cells, places)
    ours = [[_number(cell, ranks, places, markup)] for cell in cells] + [[markup.none]] * len(table.spec.references)
    if decimals is None:
        return [name], ours
    deltas = [cell.delta for cell in cells] + [None] * len(table.spec.references)
    theirs = [
        [_fixed(value, decimals, markup) + SIC * wrong, _signed(delta, places, markup)]
        for (value, wrong), delta in zip(printed, deltas, strict=True)
    ]
    return [name, f"{name} paper", markup.delta], [left + right for left, right in zip(ours, theirs, strict=True)]


def _printed(table: Table, column: str) -> list[tuple[float | None, bool]]:
    """The paper's value in every row, its own rows last, and whether it is a misprint."""
    wrong = misprints(table.spec)
    known = [(row.cells[column].published, column in wrong.get(identify(row.key), {})) for row in table.rows]
    return known + [(row["cells"].get(column), column in row.get("recomputed", {})) for row in table.spec.references]


def _ranks(table: Table, cells: Sequence[Cell], places: int) -> list[str]:
    """The best and the second best mean of a column as printed, so that ties in print are marked alike."""
    means = [cell.mean for cell in cells if cell.mean is not None]
    if len(means) < 2 or table.spec.best == "none":
        return []
    printed = dict.fromkeys(f"{mean:.{places}f}" for mean in sorted(means, reverse=table.spec.best == "max"))
    return list(printed)[:2]


def _number(cell: Cell, ranks: Sequence[str], places: int, markup: Markup) -> str:
    """Mean and standard deviation; the first of `ranks` is bold, the second underlined where the format can."""
    if cell.mean is None:
        return markup.none
    place = dict(zip(ranks, (markup.bold, markup.underline), strict=False))
    mark = place.get(f"{cell.mean:.{places}f}", str)
    spread = "" if cell.sd is None else markup.spread(f"{cell.sd:.{places}f}")
    return mark(_fixed(cell.mean, places, markup)) + spread


def _decimals(value: float) -> int:
    """Decimals that the paper printed, at most four."""
    return min(4, len(f"{value:.10g}".partition(".")[2]))


def _fixed(value: float | None, decimals: int, markup: Markup) -> str:
    return markup.none if value is None else f"{value:.{decimals}f}".replace("-", markup.minus)


def _signed(value: float | None, places: int, markup: Markup) -> str:
    return markup.none if value is None else f"{value:+.{places}f}".replace("-", markup.minus)


def _remarks(table: Table) -> list[str]:
    """Lines under a table: source, protocol, notes."""
    spec = table.spec
    source = ". ".join(part for part in (spec.citation, spec.metric) if part)
    known = ((name, value) for name, value in table.protocol.items() if value != "")
    protocol = ", ".join(f"{name} {_digits(axis_text(value))}" for name, value in known)
    lines = [source, f"Protocol: {protocol}" if protocol else "", *remarks(spec), *table.notes]
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
    texts = _texts(table)
    parts = [f"**{MARKDOWN.escape(_title(table))}**", aligned(*_grid(table, MARKDOWN), texts)]
    if table.baselines:
        parts.append(aligned(*_baseline_grid(table, MARKDOWN), 1))
    parts.append("\n".join(f"- {line}" for line in _remarks(table)))
    return "\n\n".join(part for part in parts if part) + "\n"


def _latex(table: Table) -> str:
    header, body = _grid(table, LATEX)
    texts = _texts(table)
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


def _html(table: Table) -> str:
    """A fragment: the table with its caption, the rows without training, the remarks as a list."""
    parts = [_html_table(*_grid(table, HTML), _texts(table), HTML.escape(_title(table)))]
    if table.baselines:
        parts.append(_html_table(*_baseline_grid(table, HTML), 1, "Without training"))
    lines = [f"<li>{HTML.escape(line)}</li>" for line in _remarks(table)]
    return "\n".join([*parts, *(["<ul>", *lines, "</ul>"] if lines else [])]) + "\n"


def _html_table(header: list[str], body: list[list[str]], texts: int, caption: str) -> str:
    """Entries are marked up already; the first `texts` columns head their rows."""
    head = "".join(f'<th scope="col">{entry}</th>' for entry in header)
    rows = [
        "".join(f'<th scope="row">{entry}</th>' if i < texts else f"<td>{entry}</td>" for i, entry in enumerate(line))
        for line in body
    ]
    lines = [f"<caption>{caption}</caption>", f"<thead><tr>{head}</tr></thead>", "<tbody>"]
    return "\n".join(["<table>", *lines, *(f"<tr>{row}</tr>" for row in rows), "</tbody>", "</table>"])


def _csv(table: Table) -> str:
    """One line per row in full numbers; rows without training follow, named in the column `row`."""
    spec, names = table.spec, ("n", "mean", "sd", "published", "delta")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["row", *spec.axes, *(f"{column} {name}" for column in spec.columns for name in names)])
    for row in table.rows:
        cells = [_cell_dict(row.cells[column]) for column in spec.columns]
        key = [axis_text(row.key[axis]) for axis in spec.axes]
        writer.writerow(["trained", *key, *(cell[name] for cell in cells for name in names)])
    for alone in spec.references:
        printed = [{"published": alone["cells"].get(column)} for column in spec.columns]
        blank = ["" for _ in spec.axes]
        writer.writerow([REFERENCE + alone["label"], *blank, *(cell.get(n) for cell in printed for n in names)])
    for baseline in table.baselines:
        cells = [{"mean": baseline.cells.get(column)} for column in spec.columns]
        writer.writerow([baseline.label, *("" for _ in spec.axes), *(cell.get(n) for cell in cells for n in names)])
    return text.getvalue()
