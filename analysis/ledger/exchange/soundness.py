"""Refuses records whose columns are well formed but whose values no run can have, since bundles come from strangers.

The rules hold for records that this project writes: all shipped bundles pass. Runs of other tools have other scales.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from analysis.ledger import schema
from analysis.ledger.rows import SEED
from analysis.run_state import NOT_HELD, RunState

Record = Mapping[str, Any]

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


def contradiction(record: Record) -> str | None:
    """Returns what is wrong with a well-formed record, as `name=value` and the rule; None for a sound record."""
    return next(KIND_RULES[record["kind"]](record), None)


def is_foreign(run: Record) -> bool:
    """Returns whether a run was imported from another tool, whose scores have their own scale."""
    return "imported" in run["identity"]


def _run(run: Record) -> Iterator[str]:
    yield from _require(SIGNATURE_FORM.fullmatch(run["signature"]), run, "signature", "is not letters and digits")
    yield from _require(
        run["state"] in NOT_HELD, run, "state", f"is none of {', '.join(NOT_HELD)}: nobody holds such a run"
    )
    yield from _require(METHOD_NAME.fullmatch(run["method"]), run, "method", "is no name of a method")
    yield from _require(run["attempt"] >= 1, run, "attempt", "is below 1")
    yield from _require(run["seed"] >= 0, run, "seed", "is below 0")
    config = run["config"]
    for name, value in (("method", run["method"]), (SEED, run["seed"])):
        if config.get(name, value) != value and not is_foreign(run):
            yield f"config.{name}={_shorten(config[name])} is not the run's {name.rpartition('.')[2]}={_shorten(value)}"
    yield from _times(run)
    if run["updated"] < run["created"]:
        yield f"updated={run['updated']} is before created={run['created']}"
    yield from _amounts(run)
    if not is_foreign(run):
        in_range = _is_within(run["best"], CORRELATION_POINTS)
        yield from _require(in_range, run, "best", f"is beyond {CORRELATION_POINTS:g}")
        yield from _curve(run)
    for score in run["scores"]:
        yield from _score(score, is_foreign(run))
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
        yield f"protocol_hash={_shorten(score['protocol_hash'])} is not that of its protocol"
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
            yield f"cells: cell={_shorten(cell['cell'])} has an object for a value"
        if schema.digest(cell["cell"]) != cell["cell_hash"]:
            yield f"cells: cell_hash={_shorten(cell['cell_hash'])} is not that of its cell"
    for look in sweep["looks"]:
        yield from (f"looks: {line}" for line in _times(look))
        yield from _require(look["candidates"] >= 1, look, "candidates", "is below 1", "looks: ")


def _baselines(rows: Record) -> Iterator[str]:
    for name, value in rows["rows"]:
        if not _is_within(value, CORRELATION_POINTS):
            yield f"rows: {_shorten(name)}={value} is beyond {CORRELATION_POINTS:g}"
    yield from _require(rows["dev_max_length"] >= 1, rows, "dev_max_length", "is below 1")


def _pairs(pairs: Record) -> Iterator[str]:
    """Yields problems of a list of grades, whose name is their hash, or of a list of dense ranks."""
    yield from _require(DIGEST.fullmatch(pairs["hash"]), pairs, "hash", "is no digest")
    if pairs["grades"] is None:
        if schema.digest(pairs["numbers"]) != pairs["hash"]:
            yield f"hash={_shorten(pairs['hash'])} is not that of its grades"
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
        yield f"{prefix}{name}={_shorten(row[name])} {rule}"


def _shorten(value: Any) -> str:
    text = ascii(value) if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


KIND_RULES: Mapping[str, Callable[[Record], Iterator[str]]] = {
    "run": _run,
    "sweep": _sweep,
    "baselines": _baselines,
    "untrained": _score,
    "pairs": _pairs,
}
