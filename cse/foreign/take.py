"""Runs of another tool into a ledger, under a sweep of their own: the same run has the same signature for ever."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from analysis.ledger import Ledger, LedgerError
from analysis.ledger.exchange.merge import Merged, Source
from analysis.ledger.schema import digest
from cse.foreign import IMPORTED, ForeignRun
from cse_train.fields import ConfigError, Scalar, nearest

SEEDS = ("train.seed", "seed")
"""Settings that say a run's seed; a cell has none of them."""
DEV = "train.dev"


@dataclass(frozen=True, kw_only=True)
class Taking:
    """What a person asked for."""

    tool: str
    source: str
    sweep: str
    score: str
    """The metric that becomes the run's best score."""
    negated: bool = False
    """Whether the lower value is the better one: its sign is turned."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The tool's name of a setting -> ours."""


def take(runs: Sequence[ForeignRun], taking: Taking, ledger: Ledger) -> tuple[Merged, int]:
    """Write them; what changed, and how many of them lack the score. ConfigError where nothing could be taken."""
    if not runs:
        raise ConfigError([f"no finished runs: source={taking.source}; name another source or --study"])
    scored = [run for run in runs if math.isfinite(run.metrics.get(taking.score, math.nan))]
    if not scored:
        have = sorted({name for run in runs for name in run.metrics})
        raise ConfigError([f"no such score: score={taking.score}; {nearest(taking.score, have)}"])
    _require_foreign(taking.sweep, ledger)
    renamed = [replace(run, settings=_renamed(run.settings, taking.names)) for run in scored]
    records = sorted((_record(run, taking) for run in renamed), key=lambda record: record["signature"])
    cells = {_signature(run, taking): _cell(run, taking) for run in renamed}
    source = Source(f"{taking.tool} {taking.source}", hashlib.sha256(json.dumps(sorted(cells)).encode()).hexdigest())
    try:
        merged = ledger.merge([*records, _sweep(cells, records, taking)], source)
    except LedgerError as error:
        if not str(error).startswith("two results"):
            raise
        line = str(error).partition(";")[0]
        raise ConfigError(
            [f"{line}; the run changed there, or --score is another: give another --as and --ledger"]
        ) from error
    return merged, len(runs) - len(scored)


def _require_foreign(sweep: str, ledger: Ledger) -> None:
    """ConfigError where the sweep has runs of ours: two kinds of runs under one name are never told apart again."""
    ours = [run for run in ledger.runs(sweep=sweep) if IMPORTED not in run.identity]
    if ours or (ledger.sweep_spec(sweep) and not ledger.signatures(sweep)):
        raise ConfigError([f"a sweep of ours: --as {sweep} has runs that were trained here; give another name"])


def _renamed(settings: Mapping[str, Scalar], names: Mapping[str, str]) -> dict[str, Scalar]:
    return {names.get(name, name): value for name, value in settings.items()}


def _signature(run: ForeignRun, taking: Taking) -> str:
    """24 hexadecimal digits, as ours; the hash of a text that no configuration of ours gives."""
    return hashlib.sha256(json.dumps([IMPORTED, taking.tool, run.id]).encode()).hexdigest()[:24]


def _seed(run: ForeignRun) -> int:
    values = (run.settings.get(name) for name in SEEDS)
    return next((value for value in values if isinstance(value, int) and 0 <= value < 2**31), 0)


def _cell(run: ForeignRun, taking: Taking) -> dict[str, Any]:
    cell = {name: value for name, value in run.settings.items() if name not in SEEDS}
    return {"signature": _signature(run, taking), "cell_hash": digest(cell), "cell": cell, "seed": _seed(run)}


def _record(run: ForeignRun, taking: Taking) -> dict[str, Any]:
    """The run as a bundle would have it."""
    at = run.begun or 0.0
    value = -run.metrics[taking.score] if taking.negated else run.metrics[taking.score]
    examples = run.settings.get("train.examples")
    details = {"source": f"{taking.tool} {taking.source}", "id": run.id, "metrics": dict(run.metrics)}
    length = {"examples": examples if isinstance(examples, int) else None, "seconds": run.seconds}
    return {
        "kind": "run",
        "signature": _signature(run, taking),
        "state": "done",
        "attempt": 1,
        "method": str(run.settings.get("method", taking.tool))[:64],
        "seed": _seed(run),
        "config": {DEV: taking.score, **run.settings},
        "identity": {IMPORTED: taking.tool},
        **length,
        "best": value,
        "best_examples": None,
        "folder": None,
        "reason": None,
        "created": at,
        "updated": at + (run.seconds or 0.0),
        "history": [{"attempt": 1, "state": "done", "at": at, "reason": f"imported from {taking.tool}"}],
        "attempts": [{"attempt": 1, "details": details, **length, "at": at}],
        "curve": [],
        "scores": [],
    }


def _sweep(
    cells: Mapping[str, Mapping[str, Any]], records: Sequence[Mapping[str, Any]], taking: Taking
) -> dict[str, Any]:
    score = f"-{taking.score}" if taking.negated else taking.score
    seeds = sorted({int(cell["seed"]) for cell in cells.values()})
    title = f"{taking.tool}'s runs of {taking.source} by {score}"
    return {
        "kind": "sweep",
        "id": taking.sweep,
        "spec": {"title": title, "space": taking.sweep, "seeds": seeds, IMPORTED: taking.tool, "score": score},
        "created": min(record["created"] for record in records),
        "updated": max(record["updated"] for record in records),
        "cells": [cells[name] for name in sorted(cells)],
        "looks": [],
    }
