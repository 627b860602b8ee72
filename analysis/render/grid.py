"""Entries of a table in a format's markup: the main part, the baseline rows, and the lines below."""

import itertools
import re
from collections.abc import Mapping, Sequence

from analysis.render.best_of import best_of_lines
from analysis.render.markup import Markup
from analysis.tables.aggregate import Table
from analysis.tables.columns import Entry, differ
from analysis.tables.labels import axis_text, differing_line, label
from analysis.tables.spec import SettingDifference, identify

NO_AXES = "model"
"""Header of the names in a table whose rows are all the paper's."""
ONE_CELL = "cell"
"""Header of the name in a table without axes, such as the seeds of one imported configuration."""
REFERENCE_PREFIX = "paper: "
"""Prefix of the name of a row that has only published numbers."""
UNTRAINED_PREFIX = "without training: "
"""Prefix of the name of a row of the paper whose model is scored without training."""
NO_SEEDS_TEXT = "-"
"""Text in place of the number of seeds for a row without seeds."""
SIC = " sic"
"""Suffix of a printed number that cannot be right."""
SHA256 = re.compile(r"\A([0-9a-f]{12})[0-9a-f]{52}\Z")
"""Pattern of a hash whose first digits are printed below a table; JSON has all digits."""


def grid(table: Table, markup: Markup) -> tuple[list[str], list[list[str]]]:
    """Returns header and body of the main part, every entry marked up; rows that are not trained come last."""
    spec = table.spec
    header = [*map(markup.escape, spec.axes or [ONE_CELL if table.rows else NO_AXES]), "n"]
    texts = [[axis_text(row.key[axis]) for axis in spec.axes] or [label(row.key)] for row in table.rows]
    keys = [[*map(markup.escape, words)] for words in texts]
    # One number of seeds where all columns of a row agree.
    counts = ["/".join(dict.fromkeys(str(entry.n) for entry in row.entries.values())) for row in table.rows]
    rows = [[*key, count] for key, count in zip(keys, counts, strict=True)]
    blank = [""] * (text_columns(table) - 1)
    rows += [
        [markup.escape(reference_name(table, row.label)), *blank, NO_SEEDS_TEXT * (row.label in table.untrained)]
        for row in spec.references
    ]
    blocks = [rows]
    for column in spec.columns:
        names, block = _column(table, column, markup)
        header += names
        blocks.append(block)
    return header, [[entry for part in parts for entry in part] for parts in zip(*blocks, strict=True)]


def reference_name(table: Table, label: str) -> str:
    """Returns the name of a row that is not trained, with its prefix."""
    return (UNTRAINED_PREFIX if label in table.untrained else REFERENCE_PREFIX) + label


def text_columns(table: Table) -> int:
    """Returns the number of columns that name a row: one per axis, or one for a table without axes."""
    return max(1, len(table.spec.axes))


def _column(table: Table, column: str, markup: Markup) -> tuple[list[str], list[list[str]]]:
    """Returns header and entries of one column: measured values and, if the paper prints any, the published value and
    the difference."""
    entries = [row.entries[column] for row in table.rows]
    printed, name = _list_printed(table, column), markup.escape(column)
    # Decimals that the paper printed, at most four.
    texts = [f"{value:.10g}" for value, _ in printed if value is not None]
    decimals = max((min(4, len(text.partition(".")[2])) for text in texts), default=None)
    places = max(table.digits(column), decimals or 0)
    ranks = _ranks(table.best(column), entries, places)
    models = (table.untrained.get(row.label) for row in table.spec.references)
    scored = [None if model is None else model.values.get(column) for model in models]
    measured = [[_number(entry, ranks, places, markup)] for entry in entries]
    measured += [[_format(value, places, markup)] for value in scored]
    if decimals is None:
        return [name], measured
    deltas = [entry.delta for entry in entries]
    deltas += [
        difference(value, row.cells.get(column)) for value, row in zip(scored, table.spec.references, strict=True)
    ]
    published = [
        [_format(value, decimals, markup) + SIC * sic, _format(delta, places, markup, "+")]
        for (value, sic), delta in zip(printed, deltas, strict=True)
    ]
    return [name, f"{name} paper", markup.delta], [
        left + right for left, right in zip(measured, published, strict=True)
    ]


def difference(measured: float | None, published: float | None) -> float | None:
    """Returns the measured value minus the published one; None if one is missing."""
    return None if measured is None or published is None else measured - published


def _list_printed(table: Table, column: str) -> list[tuple[float | None, bool]]:
    """Returns the paper's value in every row, its untrained rows last, each with whether it is a misprint."""
    entries = [row.entries[column] for row in table.rows]
    values = [(entry.published, entry.recomputed is not None) for entry in entries]
    return values + [(row.cells.get(column), column in row.recomputed) for row in table.spec.references]


def _ranks(best: str, entries: Sequence[Entry], places: int) -> list[str]:
    """Returns the best and the second best mean of a column as printed, each if it differs from the next beyond seed
    noise.

    A mean of a single seed, or equal to the next in print, is not ranked.
    """
    if best == "none":
        return []
    ran = [entry for entry in entries if entry.mean is not None]
    ordered = sorted(ran, key=lambda entry: entry.mean or 0.0, reverse=best == "max")
    printed = [f"{entry.mean:.{places}f}" for entry in ordered]
    pairs = zip(itertools.pairwise(ordered[:3]), itertools.pairwise(printed[:3]), strict=True)
    clear = itertools.takewhile(lambda pair: pair[1][0] != pair[1][1] and differ(*pair[0]), pairs)
    return [first for _, (first, _) in clear]


def _number(entry: Entry, ranks: Sequence[str], places: int, markup: Markup) -> str:
    """Returns mean and standard deviation; the first of `ranks` is bold, the second underlined where the format can."""
    if entry.mean is None:
        return markup.none
    place = dict(zip(ranks, (markup.bold, markup.underline), strict=False))
    mark = place.get(f"{entry.mean:.{places}f}", str)
    spread = "" if entry.sd is None else markup.spread(f"{entry.sd:.{places}f}")
    return mark(_format(entry.mean, places, markup)) + spread


def _format(value: float | None, decimals: int, markup: Markup, sign: str = "") -> str:
    return markup.none if value is None else f"{value:{sign}.{decimals}f}".replace("-", markup.minus)


def remark_lines(table: Table) -> list[str]:
    """Returns the lines under a table: source, protocol, notes."""
    spec = table.spec
    source = ". ".join(part for part in (spec.citation, spec.metric) if part)
    protocol = _describe_protocol(table.protocol)
    best_of = best_of_lines(table)
    lines = [source, f"Protocol: {protocol}" if protocol else "", *_remark_on_paper(table), *best_of, *table.notes]
    return [line for line in lines if line]


def _describe_protocol(facts: Mapping[str, object]) -> str:
    stated = ((name, SHA256.sub(r"\1", axis_text(value))) for name, value in facts.items() if value != "")
    return ", ".join(f"{name} {text}" for name, text in stated)


def _remark_on_paper(table: Table) -> list[str]:
    """Returns lines on the rows that are not trained, with the protocol of scored ones, and on each misprint."""
    spec = table.spec
    rows = [(row.label or label(row.key), row) for row in (*spec.published, *spec.references)]
    misprint_lines = [
        f"As printed: {column} {row.cells[column]:g} of {name}; the row's other numbers give {value:g}"
        for name, row in rows
        for column, value in row.recomputed.items()
    ]
    unscored = any(row.label not in table.untrained for row in spec.references)
    lines = [f'Rows that begin with "{REFERENCE_PREFIX.strip()}" are models that are not trained here'] * unscored
    if table.untrained:
        scored = f'Rows that begin with "{UNTRAINED_PREFIX.strip()}" are scored as they are, once and without seeds'
        each = [
            f"{model.label}: {model.model}, {_describe_protocol(model.protocol())}"
            for model in table.untrained.values()
        ]
        lines += [f"{scored}: the difference is that of one number that does not vary", *each]
    return lines + misprint_lines


def baseline_grid(table: Table, markup: Markup) -> tuple[list[str], list[list[str]]]:
    """Returns header and body of the baseline rows, every entry marked up."""
    places = {column: table.digits(column) for column in table.spec.columns}
    body = [
        [
            markup.escape(row.label),
            *(_format(row.values.get(column), digits, markup) for column, digits in places.items()),
        ]
        for row in table.baselines
    ]
    return ["without training", *map(markup.escape, places)], body


def list_differences(table: Table) -> list[SettingDifference]:
    """Returns the settings other than the axes in which the table's rows differ."""
    rows = {identify(row.key) for row in table.rows}
    differences = []
    for setting in table.differing:
        values = {value: [key for key in keys if identify(key) in rows] for value, keys in setting.values.items()}
        values = {value: keys for value, keys in values.items() if keys}
        differences += [SettingDifference(setting.name, values)] if len(values) > 1 else []
    return differences


def difference_line(table: Table) -> str:
    """Returns a line on the settings other than the axes in which rows differ; empty where none do."""
    if table.compared_settings:
        return table.compared_settings
    axes = table.named
    names = (lambda key: axis_text(key.get(axes[0]))) if len(axes) == 1 else (lambda key: label(key, axes))
    return differing_line(list_differences(table), names)


def title(table: Table) -> str:
    """Returns the table's name and what it shows."""
    return " · ".join(part for part in (table.spec.id, table.spec.title) if part)
