"""JSON format in the shape of a space's `paper:` block, numbers in full; verdicts and order have keys of their own."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from analysis.render.best_of import best_of_dict
from analysis.render.documents import JSON_VERSION
from analysis.render.grid import difference, difference_line, list_differences, misprints
from analysis.tables.aggregate import Table
from analysis.tables.columns import Entry
from analysis.tables.ordering import Ordering
from analysis.tables.spec import Json, identify
from analysis.tables.verdict import Verdicts

PAIR = ("difference", "interval", "p", "corrected", "differs")
"""Fields of `PairDifference` that JSON lists for each pair of rows."""


def render(table: Table, verdicts: Verdicts | None, ordering: Sequence[Ordering] | None) -> str:
    plain = _table(table)
    if verdicts is not None or ordering is not None:
        plain |= {
            "verdicts": _verdicts(table, verdicts or {}),
            "ordering": [_ordering(table, order) for order in ordering or ()],
        }
    return json.dumps({"version": JSON_VERSION, **plain}, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _table(table: Table) -> dict[str, object]:
    """Returns the table in the shape of a space's `paper:` block, numbers in full."""
    recomputed = misprints(table.spec)
    difference_text = difference_line(table)
    settings = [
        {
            "name": setting.name,
            "values": [{"value": value, "rows": list(keys)} for value, keys in setting.values.items()],
        }
        for setting in list_differences(table)
    ]
    return {
        "id": table.spec.id,
        **({"differing": difference_text} if difference_text else {}),
        "axes": list(table.spec.axes),
        "columns": list(table.spec.columns),
        "rows": [
            {"key": row.key, "cells": _entries(table, row.entries, recomputed.get(identify(row.key), {}))}
            for row in table.rows
        ],
        "no_signal": table.no_signal,
        "references": [{**row, **_describe_untrained(table, row)} for row in table.spec.references],
        "protocol": table.protocol,
        **({"settings": settings} if settings else {}),
    }


def _describe_untrained(table: Table, row: Json) -> Json:
    """Returns the measured scores of a row's model, their differences from the printed ones and their protocol."""
    model = table.untrained.get(row["label"])
    if model is None:
        return {}
    deltas = {column: difference(value, row["cells"].get(column)) for column, value in model.values.items()}
    return {"model": model.model, "ours": dict(model.values), "delta": deltas, "protocol": model.protocol()}


def _entries(table: Table, entries: Mapping[str, Entry], fixes: Mapping[str, float]) -> dict[str, dict[str, object]]:
    """Returns column -> the entry with every seed, for grading a page again, and the worth of the best of some seeds
    by dev.

    An entry with a misprint also has the recomputed value.
    """
    corrections = {column: {"recomputed": fixes[column]} if column in fixes else {} for column in entries}
    each = {
        name: {"seeds": list(entry.seeds), "values": list(entry.values), "idle": list(entry.idle)}
        for name, entry in entries.items()
    }
    best_of = {column: best_of_dict(entry, table.scale(column)) for column, entry in entries.items()}
    best_entries = {column: {"best_of": best} for column, best in best_of.items() if best}
    return {
        column: entry.as_dict() | each[column] | best_entries.get(column, {}) | corrections[column]
        for column, entry in entries.items()
    }


def _verdicts(table: Table, verdicts: Verdicts) -> list[dict[str, object]]:
    """Returns each verdict with the key of its row."""
    return [
        {"key": table.rows[index].key, "column": column, **asdict(verdict)}
        for (index, column), verdict in verdicts.items()
    ]


def _ordering(table: Table, order: Ordering) -> dict[str, object]:
    """Returns a column's order, with every pair of rows by their keys."""
    rows = table.rows
    pairs = [
        {"rows": [rows[pair.left].key, rows[pair.right].key], **{name: getattr(pair, name) for name in PAIR}}
        for pair in order.pairs
    ]
    return {"column": order.column, "word": order.word, **asdict(order), "pairs": pairs}
