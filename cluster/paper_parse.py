"""The `paper:` block of a space: published values in the shape of our own tables, each row one of the cells."""

from collections.abc import Callable, Mapping
from typing import Any

from cluster.domains import contains
from cluster.space import Key, Paper, Space
from cse_train import fields

KEYS = ("citation", "table", "source", "metric", "columns", "rows", "notes")
NEEDED = KEYS[:4]
"""A figure without printed numbers has no columns and rows."""


def brief(value: object) -> str:
    """A value in an error line: at most 40 characters."""
    text = str(value)
    return text if len(text) <= 40 else text[:37] + "..."


def parse_paper(raw: Mapping[str, Any], found: list[str]) -> Paper | None:
    if "paper" not in raw:
        return None
    value = raw["paper"]
    if not isinstance(value, dict):
        found.append(f"wrong type: paper={brief(value)}; give a mapping")
        return None
    problems = [f"unknown key: paper.{k}={brief(value[k])}; {fields.nearest(k, KEYS)}" for k in value if k not in KEYS]
    problems += [f"missing key: paper.{k}=null; give it" for k in NEEDED if k not in value]
    texts = [k for k in KEYS if k not in ("columns", "rows") and not isinstance(value.get(k, ""), str)]
    problems += [f"wrong type: paper.{k}={brief(value[k])}; give text" for k in texts]
    if not isinstance(value.get("columns", []), list):
        problems.append(f"wrong type: paper.columns={brief(value['columns'])}; give a list such as [sts_dev]")
    rows = value.get("rows", [])
    if not isinstance(rows, list) or not all(_is_row(row) for row in rows):
        problems.append(f"wrong type: paper.rows={brief(rows)}; give a list of {{key: {{...}}, cells: {{...}}}}")
    found += problems
    if problems:
        return None
    parsed = tuple((row["key"], {name: float(v) for name, v in row["cells"].items()}) for row in rows)
    return Paper(**{**value, "columns": tuple(value.get("columns", ())), "rows": parsed})


def _is_row(row: object) -> bool:
    if not isinstance(row, dict) or set(row) != {"key", "cells"}:
        return False
    cells = row["cells"]
    return (
        isinstance(row["key"], dict) and isinstance(cells, dict) and all(fields.fits(float, v) for v in cells.values())
    )


def row_problems(space: Space) -> list[str]:
    """Published rows that are no cell, and published columns that are not declared."""
    if space.paper is None:
        return []
    is_cell = _membership(space)
    found = [
        f"row without a cell: paper.rows.key={key}; add it to the space"
        for key, _ in space.paper.rows
        if not is_cell(key)
    ]
    columns = {name for _, values in space.paper.rows for name in values}
    return found + [
        f"unknown column: paper.rows.cells={name}; {fields.nearest(name, space.paper.columns)}"
        for name in sorted(columns - set(space.paper.columns))
    ]


def _membership(space: Space) -> Callable[[Key], bool]:
    if not space.cells:
        fixed = {"method": space.method} if space.method else {}
        return lambda key: contains(space.axes, fixed, key)
    shown = [{a: c.settings.get(a, space.settings.get(a)) for a in space.axis_names} for c in space.cells]
    return lambda key: {**dict.fromkeys(space.axis_names), **key} in shown
