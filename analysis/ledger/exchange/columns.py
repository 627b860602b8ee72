"""Columns of each kind of record that a ledger exports, and the checks for records that come from elsewhere.

A record is a JSON object: `kind`, its own columns, and lists of parts. Owners and leases of runs are not exported.
Bundles come from strangers: refused are records of another form, and those whose values no run can have. The rules hold
for records that this project writes: all shipped bundles pass. Runs of other tools have other scales.
"""

import itertools
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import JSON, Column, Float, Integer, String, Table

from analysis.ledger import schema
from analysis.ledger.rows import SEED
from analysis.run_state import NOT_HELD, RunState
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
SIGNATURE_FORM = re.compile("[0-9A-Za-z]{1,64}")
METHOD_NAME = re.compile(r"[0-9A-Za-z_][0-9A-Za-z_.@+ -]{0,63}")
UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069/\\]|^\.{1,2}$")
"""Characters and names refused in a name that may become a file's: control characters, changes of writing direction,
and parts of a path."""
DIGEST = re.compile("[0-9a-f]{16}|[0-9a-f]{64}")
RECORD_TIMES = ("created", "updated", "at")
LONGEST_RUN_SECONDS = 10 * 365 * 86_400.0
"""Longest duration of a run: ten years, in seconds."""
CORRELATION_POINTS = 100.0
"""Largest absolute value of a correlation or an accuracy, times 100."""
LARGEST_PLUGIN_VALUE = 1e6
"""Largest absolute value of a metric that a plug-in computed."""
LATEST_TIME = 4_102_444_800.0
"""Latest valid time: the year 2100, in seconds since 1970."""


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
PAIRS_SHAPE = Shape(schema.pairs, ("hash", "grades", "numbers"), key=("hash",))
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
    return next(_problems(columns, RECORD_KINDS[kind]), None) or next(KIND_RULES[kind](record), None)


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


def _shorten(value: Any, show: Callable[[Any], str] = repr) -> str:
    """Returns a value for a message, cut to 60 characters."""
    text = show(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _run(run: Record) -> Iterator[str]:
    is_foreign = "imported" in run["identity"]  # another tool's: its scores have their own scale
    yield from _require(SIGNATURE_FORM.fullmatch(run["signature"]), run, "signature", "is not letters and digits")
    yield from _require(
        run["state"] in NOT_HELD, run, "state", f"is none of {', '.join(NOT_HELD)}: nobody holds such a run"
    )
    yield from _require(METHOD_NAME.fullmatch(run["method"]), run, "method", "is no name of a method")
    yield from _require(run["attempt"] >= 1, run, "attempt", "is below 1")
    yield from _require(run["seed"] >= 0, run, "seed", "is below 0")
    config = run["config"]
    for name, value in (("method", run["method"]), (SEED, run["seed"])):
        if config.get(name, value) != value and not is_foreign:
            yield f"config.{name}={_escape(config[name])} is not the run's {name.rpartition('.')[2]}={_escape(value)}"
    yield from _times(run)
    if run["updated"] < run["created"]:
        yield f"updated={run['updated']} is before created={run['created']}"
    yield from _amounts(run)
    if not is_foreign:
        in_range = _is_within(run["best"], CORRELATION_POINTS)
        yield from _require(in_range, run, "best", f"is beyond {CORRELATION_POINTS:g}")
        yield from _curve(run)
    for score in run["scores"]:
        yield from _score(score, is_foreign)
    for name in ("history", "attempts"):
        for part in run[name]:
            yield from (f"{name}: {line}" for line in _times(part))
            yield from (f"{name}: {line}" for line in _amounts(part))
            if not 1 <= part["attempt"] <= run["attempt"]:
                yield f"{name}: attempt={part['attempt']} is none of 1 to {run['attempt']}"
    if not run["history"] or run["history"][-1]["state"] != run["state"]:
        yield f"state={run['state']} is not how its history ends"


def _curve(run: Record) -> Iterator[str]:
    """Yields problems of a run's curve; for a finished run, also those of its best score against the curve."""
    curve = run["curve"]
    for point in curve:
        yield from (f"curve: {line}" for line in _amounts(point))
        yield from _require(
            _is_within(point["best"], CORRELATION_POINTS), point, "best", f"is beyond {CORRELATION_POINTS:g}", "curve: "
        )
        yield from _require(point["step"] >= 0, point, "step", "is below 0", "curve: ")
        yield from _require(
            1 <= point["attempt"] <= run["attempt"], point, "attempt", "is none of the run's", "curve: "
        )
    if not curve or run["state"] != RunState.DONE:
        return
    yield from _check_ascending(curve, "best")
    yield from _check_ascending(curve, "seconds")
    last, dev = curve[-1], run["config"].get("train.dev")
    measured = [value for point in curve if (value := point["metrics"].get(dev)) is not None]
    if run["best"] != last["best"] or (measured and max(measured) != run["best"]):
        yield f"best={run['best']} is not the best of its curve, {max(measured, default=last['best'])}"
    if run["best_examples"] not in [point["examples"] for point in curve]:
        yield f"best_examples={run['best_examples']} is no point of its curve"
    if run["examples"] is None or last["examples"] > run["examples"]:
        yield f"examples={run['examples']} ends before its curve at {last['examples']}"


def _check_ascending(curve: Sequence[Record], name: str) -> Iterator[str]:
    values = [point[name] for point in curve if point[name] is not None]
    if values != sorted(values):
        yield f"curve: {name} falls from one point to a later one"


def _score(score: Record, foreign: bool = False) -> Iterator[str]:
    """Yields problems of a score. Its bound depends on the column: a bare name is a set's or a task's own metric,
    times 100; `SET:METRIC` is any other. Scores of another tool (`foreign`) have the widest bound."""
    yield from _require(not UNSAFE.search(score["suite"].replace("/", "")), score, "suite", "is no name of a suite")
    plug_in = " " in str(score["protocol"].get("code_version", ""))
    limit = (
        LARGEST_PLUGIN_VALUE
        if foreign or plug_in or (":" in score["suite"] and not score["suite"].startswith("mteb:"))
        else CORRELATION_POINTS
    )
    yield from _require(_is_within(score["value"], limit), score, "value", f"of {score['suite']} is beyond {limit:g}")
    if schema.digest(score["protocol"]) != score["protocol_hash"]:
        yield f"protocol_hash={_escape(score['protocol_hash'])} is not that of its protocol"
    hashed = score.get("cosines_hash")
    yield from _require(hashed is None or DIGEST.fullmatch(hashed), score, "cosines_hash", "is no digest")
    yield from _times(score)


def _sweep(sweep: Record) -> Iterator[str]:
    yield from _require(sweep["id"] and not UNSAFE.search(sweep["id"]), sweep, "id", "is no name of a sweep")
    yield from _times(sweep)
    for cell in sweep["cells"]:
        form = SIGNATURE_FORM.fullmatch(cell["signature"])
        yield from _require(form, cell, "signature", "is not letters and digits", "cells: ")
        yield from _require(cell["seed"] >= 0, cell, "seed", "is below 0", "cells: ")
        if any(isinstance(value, dict) for value in cell["cell"].values()):
            yield f"cells: cell={_escape(cell['cell'])} has an object for a value"
        if schema.digest(cell["cell"]) != cell["cell_hash"]:
            yield f"cells: cell_hash={_escape(cell['cell_hash'])} is not that of its cell"
    for look in sweep["looks"]:
        yield from (f"looks: {line}" for line in _times(look))
        yield from _require(look["candidates"] >= 1, look, "candidates", "is below 1", "looks: ")


def _baselines(rows: Record) -> Iterator[str]:
    for name, value in rows["rows"]:
        if not _is_within(value, CORRELATION_POINTS):
            yield f"rows: {_escape(name)}={value} is beyond {CORRELATION_POINTS:g}"
    yield from _require(rows["dev_max_length"] >= 1, rows, "dev_max_length", "is below 1")


def _pairs(pairs: Record) -> Iterator[str]:
    """Yields problems of a list of grades, whose name is their hash, or of a list of dense ranks."""
    yield from _require(DIGEST.fullmatch(pairs["hash"]), pairs, "hash", "is no digest")
    if pairs["grades"] is None:
        if schema.digest(pairs["numbers"]) != pairs["hash"]:
            yield f"hash={_escape(pairs['hash'])} is not that of its grades"
    elif not all(isinstance(rank, int) and 0 <= rank < len(pairs["numbers"]) for rank in pairs["numbers"]):
        yield "numbers: has a rank that is no place among its pairs"


def _times(row: Record) -> Iterator[str]:
    """Yields problems of a row's times. No clock is asked, since clocks of machines differ."""
    for name in (name for name in RECORD_TIMES if name in row):
        if not 0 <= row[name] <= LATEST_TIME:
            yield f"{name}={row[name]:g} is no time in seconds since 1970"


def _amounts(row: Record) -> Iterator[str]:
    if not 0 <= (row.get("seconds") or 0.0) <= LONGEST_RUN_SECONDS:
        yield f"seconds={row['seconds']:g} is no length of a run"
    for name in ("examples", "best_examples"):
        if (row.get(name) or 0) < 0:
            yield f"{name}={row[name]} is below 0"


def _is_within(value: float | None, limit: float) -> bool:
    return value is None or abs(value) <= limit


def _require(holds: object, row: Record, name: str, rule: str, prefix: str = "") -> Iterator[str]:
    if not holds:
        yield f"{prefix}{name}={_escape(row[name])} {rule}"


def _escape(value: Any) -> str:
    """Returns a value in ASCII for a message, cut to 60 characters."""
    return _shorten(value, ascii if isinstance(value, str) else repr)


KIND_RULES: Mapping[str, Callable[[Record], Iterator[str]]] = {
    "run": _run,
    "sweep": _sweep,
    "baselines": _baselines,
    "untrained": _score,
    "pairs": _pairs,
}
