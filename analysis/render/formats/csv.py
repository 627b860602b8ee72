"""CSV format with full numbers, without verdicts and order."""

import csv
import io
from collections.abc import Sequence
from typing import Any

from analysis.answers.judge import Verdicts
from analysis.render.grid import difference, list_differences, reference_name
from analysis.tables.aggregate import Table
from analysis.tables.labels import axis_text
from analysis.tables.ordering import Ordering
from analysis.tables.spec import identify
from cse_train.reading import plain_text

FORMULA = ("=", "+", "-", "@")
"""Characters with which a spreadsheet's formula begins."""


def cell(text: str) -> str:
    """Returns a foreign text as a CSV entry, with an apostrophe in front if a spreadsheet would run it as a formula."""
    text = "\n".join(map(plain_text, text.split("\n")))
    return f"'{text}" if text.lstrip().startswith(FORMULA) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
        return True
    except ValueError:
        return False


def render(table: Table, verdicts: Verdicts | None, ordering: Sequence[Ordering] | None) -> str:
    """Returns one line per row in full numbers, with the settings in which rows differ beyond the axes.

    Rows without training follow, named in the column `row`.
    """
    spec, names = table.spec, ("n", "mean", "sd", "published", "delta")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    results = [f"{column} {name}" for column in spec.columns for name in names]
    settings: list[tuple[str, dict[Any, str]]] = [
        (setting.name, {identify(key): value for value, keys in setting.values.items() for key in keys})
        for setting in list_differences(table)
    ]
    writer.writerow(["row", *map(cell, [*spec.axes, *results, *(name for name, _ in settings)])])
    for row in table.rows:
        entries = [row.entries[column].as_dict() for column in spec.columns]
        key = [cell(axis_text(row.key[axis])) for axis in spec.axes]
        setting_values = [cell(values.get(identify(row.key), "")) for _, values in settings]
        writer.writerow(["trained", *key, *(entry[name] for entry in entries for name in names), *setting_values])
    for reference in spec.references:
        model, printed = table.untrained.get(reference.label), reference.cells
        pairs = [(model.values.get(column) if model else None, printed.get(column)) for column in spec.columns]
        blocks = [{"mean": mean, "published": value, "delta": difference(mean, value)} for mean, value in pairs]
        blank = ["" for _ in spec.axes]
        label = cell(reference_name(table, reference.label))
        writer.writerow([label, *blank, *(entry.get(n) for entry in blocks for n in names)])
    for baseline in table.baselines:
        entries = [{"mean": baseline.values.get(column)} for column in spec.columns]
        blank = ["" for _ in spec.axes]
        writer.writerow([cell(baseline.label), *blank, *(entry.get(n) for entry in entries for n in names)])
    return text.getvalue()
