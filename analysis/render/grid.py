"""A table's entries, marked up as a format writes them: the main part, the rows without training, the lines below."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from analysis.render.markup import Markup
from analysis.tables.aggregate import Entry, Table
from analysis.tables.labels import axis_text, label
from analysis.tables.spec import TableSpec, identify

NO_AXES = "model"
"""Heads the names of a table whose rows are all the paper's."""
REFERENCE = "paper: "
"""Stands before the name of a row that has no numbers of ours."""
SIC = " sic"
"""Stands behind a printed number that cannot be right."""
SHA256 = re.compile(r"\A([0-9a-f]{12})[0-9a-f]{52}\Z")
"""Its first digits stand below a table; JSON keeps them all."""


def grid(table: Table, markup: Markup) -> tuple[list[str], list[list[str]]]:
    """Header and body of the main part, every entry marked up; rows of the paper alone come last."""
    spec = table.spec
    header = [*map(markup.escape, spec.axes or [NO_AXES]), "n"]
    keys = [[markup.escape(axis_text(row.key[axis])) for axis in spec.axes] for row in table.rows]
    rows = [[*key, _count(row.entries)] for key, row in zip(keys, table.rows, strict=True)]
    rows += [[markup.escape(REFERENCE + row["label"]), *[""] * text_columns(table)] for row in spec.references]
    blocks = [rows]
    for column in spec.columns:
        names, block = _column(table, column, markup)
        header += names
        blocks.append(block)
    return header, [[entry for part in parts for entry in part] for parts in zip(*blocks, strict=True)]


def text_columns(table: Table) -> int:
    """Columns that say what a row is: the axes, or the name alone where nothing varies."""
    return max(1, len(table.spec.axes))


def _count(entries: Mapping[str, Entry]) -> str:
    """The number of seeds behind a row: one number where all its columns agree."""
    return "/".join(dict.fromkeys(str(entry.n) for entry in entries.values()))


def _column(table: Table, column: str, markup: Markup) -> tuple[list[str], list[list[str]]]:
    """Header and entries of one result: ours and, where the paper prints any, its value and the difference."""
    entries = [row.entries[column] for row in table.rows]
    printed, name = _printed(table, column), markup.escape(column)
    decimals = max((_decimals(value) for value, _ in printed if value is not None), default=None)
    places = max(2, decimals or 0)
    ranks = _ranks(table, entries, places)
    ours = [[_number(entry, ranks, places, markup)] for entry in entries] + [[markup.none]] * len(table.spec.references)
    if decimals is None:
        return [name], ours
    deltas = [entry.delta for entry in entries] + [None] * len(table.spec.references)
    theirs = [
        [_fixed(value, decimals, markup) + SIC * wrong, _fixed(delta, places, markup, "+")]
        for (value, wrong), delta in zip(printed, deltas, strict=True)
    ]
    return [name, f"{name} paper", markup.delta], [left + right for left, right in zip(ours, theirs, strict=True)]


def _printed(table: Table, column: str) -> list[tuple[float | None, bool]]:
    """The paper's value in every row, its own rows last, and whether it is a misprint."""
    wrong = misprints(table.spec)
    ours = [(row.entries[column].published, column in wrong.get(identify(row.key), {})) for row in table.rows]
    return ours + [(row["cells"].get(column), column in row.get("recomputed", {})) for row in table.spec.references]


def misprints(spec: TableSpec) -> dict[tuple[Any, ...], Mapping[str, float]]:
    """Identity of a published row -> {column: what its other numbers give}, of rows with a misprint."""
    return {identify(row["key"]): row["recomputed"] for row in spec.published if row.get("recomputed")}


def _ranks(table: Table, entries: Sequence[Entry], places: int) -> list[str]:
    """The best and the second best mean of a column as printed, so that ties in print are marked alike."""
    means = [entry.mean for entry in entries if entry.mean is not None]
    if len(means) < 2 or table.spec.best == "none":
        return []
    printed = dict.fromkeys(f"{mean:.{places}f}" for mean in sorted(means, reverse=table.spec.best == "max"))
    return list(printed)[:2]


def _number(entry: Entry, ranks: Sequence[str], places: int, markup: Markup) -> str:
    """Mean and standard deviation; the first of `ranks` is bold, the second underlined where the format can."""
    if entry.mean is None:
        return markup.none
    place = dict(zip(ranks, (markup.bold, markup.underline), strict=False))
    mark = place.get(f"{entry.mean:.{places}f}", str)
    spread = "" if entry.sd is None else markup.spread(f"{entry.sd:.{places}f}")
    return mark(_fixed(entry.mean, places, markup)) + spread


def _decimals(value: float) -> int:
    """Decimals that the paper printed, at most four."""
    return min(4, len(f"{value:.10g}".partition(".")[2]))


def _fixed(value: float | None, decimals: int, markup: Markup, sign: str = "") -> str:
    return markup.none if value is None else f"{value:{sign}.{decimals}f}".replace("-", markup.minus)


def remark_lines(table: Table) -> list[str]:
    """Lines under a table: source, protocol, notes."""
    spec = table.spec
    source = ". ".join(part for part in (spec.citation, spec.metric) if part)
    stated = ((k, SHA256.sub(r"\1", axis_text(value))) for k, value in table.protocol.items() if value != "")
    protocol = ", ".join(f"{name} {text}" for name, text in stated)
    lines = [source, f"Protocol: {protocol}" if protocol else "", *_printed_remarks(spec), *table.notes]
    return [line for line in lines if line]


def _printed_remarks(spec: TableSpec) -> list[str]:
    """One line on the rows without cells of ours, and one for each misprint."""
    rows = [(row.get("label") or label(row["key"]), row) for row in (*spec.published, *spec.references)]
    wrong = [
        f"As printed: {column} {row['cells'][column]:g} of {name}; the row's other numbers give {value:g}"
        for name, row in rows
        for column, value in row.get("recomputed", {}).items()
    ]
    about = [f'Rows that begin with "{REFERENCE.strip()}" are models that are not trained here'] * bool(spec.references)
    return about + wrong


def baseline_grid(table: Table, markup: Markup) -> tuple[list[str], list[list[str]]]:
    """Header and body of the rows without training, every entry marked up."""
    columns = table.spec.columns
    body = [
        [markup.escape(row.label), *(_fixed(row.values.get(column), 2, markup) for column in columns)]
        for row in table.baselines
    ]
    return ["without training", *map(markup.escape, columns)], body


def title(table: Table) -> str:
    """The table's name and what it shows."""
    return " · ".join(part for part in (table.spec.id, table.spec.title) if part)
