"""What a table prints of the paper alone: rows of models that are not trained here, and misprints kept as they are."""

from collections.abc import Mapping
from typing import Any

from analysis.tables.labels import label
from analysis.tables.spec import TableSpec, identify

REFERENCE = "paper: "
"""Stands before the name of a row that has no numbers of ours."""
SIC = " sic"
"""Stands behind a printed number that cannot be right."""


def misprints(spec: TableSpec) -> dict[tuple[Any, ...], Mapping[str, float]]:
    """Identity of a published row -> {column: what its other numbers give}, of rows with a misprint."""
    return {identify(row["key"]): row["recomputed"] for row in spec.published if row.get("recomputed")}


def remarks(spec: TableSpec) -> list[str]:
    """One line on the rows without cells of ours, and one for each misprint."""
    rows = [(row.get("label") or label(row["key"]), row) for row in (*spec.published, *spec.references)]
    misprints = [
        f"As printed: {column} {row['cells'][column]:g} of {name}; the row's other numbers give {value:g}"
        for name, row in rows
        for column, value in row.get("recomputed", {}).items()
    ]
    about = [f'Rows that begin with "{REFERENCE.strip()}" are models that are not trained here'] * bool(spec.references)
    return about + misprints
