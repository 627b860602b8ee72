"""Columns of each kind of record that a ledger exports, and the checks for records that come from elsewhere.

A record is a JSON object: `kind`, its own columns, and lists of parts. Owners and leases of runs are not exported.
"""

import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import JSON, Column, Float, Integer, String, Table

from analysis.ledger import schema
from analysis.ledger.exchange.imports import pairs
from analysis.ledger.exchange.soundness import contradiction
from analysis.run_state import RunState
from cse_train.results import Json

Record = dict[str, Any]

LISTS = ("suites", "rows", "numbers")
"""JSON columns that hold a list; other JSON columns hold an object."""
OBJECT_COLUMNS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(("config", "identity"), (lambda value: not isinstance(value, dict | list), " of plain values")),
    **dict.fromkeys(("metrics", "values"), (lambda value: value is None or _is_number(value), " of numbers")),
}
"""JSON column -> test for each value of its object, and the rule in words for an error message."""
SPEC_SHAPE: Mapping[str, type] = {
    **dict.fromkeys(("title", "space", "file", "profile"), str),
    **dict.fromkeys(("set", "blocked", "yaml", "profile_yaml", "inputs"), dict),
    "seeds": list,
}
"""Keys of a sweep's description that commands read -> the type of their values; each key may be absent."""
LARGEST_INTEGER = 2**31 - 1
"""Largest value of an Integer column in PostgreSQL."""


@dataclass(frozen=True)
class Shape:
    """Columns of one table that a record holds."""

    table: Table
    names: Sequence[str]
    key: Sequence[str] = ()
    """Columns by which records ascend; empty where the order of records carries meaning."""
    parts: Mapping[str, "Shape"] = field(default_factory=dict)

    @property
    def columns(self) -> list[Column[Any]]:
        return [self.table.c[name] for name in self.names]

    def key_of(self, record: Json) -> tuple[Any, ...]:
        return tuple(record[name] for name in self.key)


PROGRESS_COLUMNS = ("best", "best_examples", "seconds")
RUN_SHAPE = Shape(
    schema.runs,
    (
        *("signature", "state", "attempt", "method", "seed", "config", "identity"),
        *("examples", *PROGRESS_COLUMNS, "folder", "reason", "created", "updated"),
    ),
    key=("signature",),
    parts={
        "history": Shape(schema.history, ("attempt", "state", "at", "reason")),
        "attempts": Shape(schema.provenance, ("attempt", "details", "examples", "seconds", "at"), key=("attempt",)),
        "curve": Shape(schema.curves, ("examples", "attempt", "step", *PROGRESS_COLUMNS, "metrics"), key=("examples",)),
        "scores": Shape(
            schema.scores,
            ("suite", "protocol_hash", "value", "protocol", "cosines_file", "cosines_hash", "at"),
            key=("suite", "protocol_hash"),
        ),
    },
)
SWEEP = Shape(
    schema.sweeps,
    ("id", "spec", "created", "updated"),
    key=("id",),
    parts={
        "cells": Shape(schema.sweep_runs, ("signature", "cell_hash", "cell", "seed"), key=("signature", "cell_hash")),
        "looks": Shape(schema.selections, ("rule", "candidates", "signature", "suites", "values", "at")),
    },
)
BASELINES = Shape(
    schema.baselines,
    ("suite", "encoder", "corpus", "dev_max_length", "inputs", "rows"),
    key=("suite", "encoder", "corpus", "dev_max_length"),
)
UNTRAINED_KEY = ("model", "model_hash", "pooler", "suite", "protocol_hash")
UNTRAINED_SHAPE = Shape(schema.untrained_scores, (*UNTRAINED_KEY, "data_hash", "value", "protocol"), key=UNTRAINED_KEY)
PAIRS_SHAPE = Shape(pairs, ("hash", "grades", "numbers"), key=("hash",))
RECORD_KINDS: Mapping[str, Shape] = {
    "run": RUN_SHAPE,
    "sweep": SWEEP,
    "baselines": BASELINES,
    "untrained": UNTRAINED_SHAPE,
    "pairs": PAIRS_SHAPE,
}
"""Kind of record -> its shape, in the order in which kinds follow each other in a bundle."""


def place(record: Record) -> tuple[Any, ...]:
    """Returns the sort key of a checked record; records of a bundle ascend by it."""
    return list(RECORD_KINDS).index(record["kind"]), *RECORD_KINDS[record["kind"]].key_of(record)


def problem(record: Any) -> str | None:
    """Returns what is wrong with a record, as `name=value` and the rule; None for a record that a ledger can take."""
    kind = record.get("kind") if isinstance(record, dict) else None
    if not isinstance(kind, str) or kind not in RECORD_KINDS:
        return f"kind={_shorten(kind)} is none of {', '.join(RECORD_KINDS)}"
    columns = {name: value for name, value in record.items() if name != "kind"}
    return next(_problems(columns, RECORD_KINDS[kind]), None) or contradiction(record)


def _problems(record: Any, shape: Shape) -> Iterator[str]:
    if not isinstance(record, dict):
        yield f"{_shorten(record)} is not a JSON object"
        return
    names = {*shape.names, *shape.parts}
    yield from (f"column={_shorten(name)} is unknown" for name in record.keys() - names)
    yield from (f"column={name} is missing" for name in sorted(names - record.keys()))
    for column in shape.columns:
        if rule := _rule(column, record[column.name]):
            yield f"{column.name}={_shorten(record[column.name])} {rule}"
    for name, part in shape.parts.items():
        yield from (f"{name}: {line}" for line in _part_problems(record[name], part))


def _part_problems(rows: Any, shape: Shape) -> Iterator[str]:
    if not isinstance(rows, list):
        yield "is not a list"
        return
    for row in rows:
        yield from _problems(row, shape)
    keys = [shape.key_of(row) for row in rows] if shape.key else []
    if any(left >= right for left, right in itertools.pairwise(keys)):
        yield f"does not ascend by {', '.join(shape.key)}"


def _rule(column: Column[Any], value: Any) -> str | None:
    """Returns the rule that a column's value breaks; None for a valid value."""
    if value is None:
        return None if column.nullable else "is empty"
    if isinstance(column.type, JSON):
        return _json_rule(column.name, value)
    if isinstance(column.type, Integer):
        whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST_INTEGER
        return None if whole else f"is not a whole number up to {LARGEST_INTEGER}"
    if isinstance(column.type, Float):
        return None if _is_number(value) else "is not a number"
    if not isinstance(value, str):
        return "is not a text"
    assert isinstance(column.type, String)
    if column.type.length is not None and len(value) > column.type.length:
        return f"is longer than {column.type.length} letters"
    is_state = column.name == "state"
    return f"is none of {', '.join(RunState)}" if is_state and value not in [*RunState] else None


def _json_rule(name: str, value: Any) -> str | None:
    if name not in LISTS:
        if name == "spec" and isinstance(value, dict):
            wrong_keys = (key for key, kind in SPEC_SHAPE.items() if not isinstance(value.get(key, kind()), kind))
            return next((f"has a {key} that is no {SPEC_SHAPE[key].__name__}" for key in wrong_keys), None)
        fits, words = OBJECT_COLUMNS.get(name, (lambda _: True, ""))
        is_valid = isinstance(value, dict) and all(map(fits, value.values()))
        return None if is_valid else f"is not a JSON object{words}"
    if not isinstance(value, list):
        return "is not a list"
    if name == "numbers":
        return None if all(map(_is_number, value)) else "is not a list of numbers"
    if name == "suites":
        return None if all(isinstance(suite, str) for suite in value) else "is not a list of texts"
    are_pairs = all(isinstance(row, list) and len(row) == 2 and isinstance(row[0], str) for row in value)
    is_valid = are_pairs and all(number is None or _is_number(number) for _, number in value)
    return None if is_valid else "is not a list of [name, number]"


def _is_number(value: Any) -> bool:
    """Returns whether a value is a number that fits into a float."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _shorten(value: Any) -> str:
    """Returns the repr of a value for a message, cut to 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
