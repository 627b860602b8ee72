"""CSV with full numbers, without verdicts and order."""

import csv
import io
from collections.abc import Sequence

from analysis.render.grid import REFERENCE
from analysis.tables.aggregate import Table
from analysis.tables.labels import axis_text
from analysis.tables.ordering import Ordering
from analysis.tables.verdict import Verdicts


def render(table: Table, verdicts: Verdicts | None, ordering: Sequence[Ordering] | None) -> str:
    """One line per row in full numbers; rows without training follow, named in the column `row`."""
    spec, names = table.spec, ("n", "mean", "sd", "published", "delta")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["row", *spec.axes, *(f"{column} {name}" for column in spec.columns for name in names)])
    for row in table.rows:
        entries = [row.entries[column].as_dict() for column in spec.columns]
        key = [axis_text(row.key[axis]) for axis in spec.axes]
        writer.writerow(["trained", *key, *(entry[name] for entry in entries for name in names)])
    for alone in spec.references:
        printed = [{"published": alone["cells"].get(column)} for column in spec.columns]
        blank = ["" for _ in spec.axes]
        writer.writerow([REFERENCE + alone["label"], *blank, *(entry.get(n) for entry in printed for n in names)])
    for baseline in table.baselines:
        entries = [{"mean": baseline.values.get(column)} for column in spec.columns]
        writer.writerow([baseline.label, *("" for _ in spec.axes), *(entry.get(n) for entry in entries for n in names)])
    return text.getvalue()
