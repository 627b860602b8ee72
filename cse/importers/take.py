"""Runs of another tool into a ledger, under a sweep of their own: the same run has the same signature for ever."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from analysis.ledger import Ledger, LedgerError, RunRow
from analysis.ledger.exchange.columns import Record
from analysis.ledger.exchange.merge import Merged, RecordSource
from analysis.ledger.schema import digest
from analysis.run_state import RunState
from analysis.tables.spec import Sense
from cse.importers import ForeignRun
from cse.importers.left import Left
from cse.tables.imported import IMPORTED
from cse.tables.imported.metric import Metric, declare_metric, spec_of_metric
from cse_train.fields import ConfigError, Json, Scalar, nearest

SEED_SETTINGS = ("train.seed", "seed")
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
    better: Sense | None = None
    """Which value is the better one, where a person or the tool says it; of the lower one the sign is turned."""
    span: float | None = None
    """How wide the metric's range is, where a person says it."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The tool's name of a setting -> ours."""


def take(runs: Sequence[ForeignRun], taking: Taking, ledger: Ledger) -> tuple[Merged, list[str], Metric]:
    """Write the finished ones with the score; what changed, a line for each kind of thing that was not taken, and what
    the score means.

    ConfigError where nothing could be taken, a name of `taking.names` is none that a run has, or two runs are one, and
    for a loss of which nobody says which value is better.
    """
    left = Left.of(runs, taking.score, taking.names)
    finished = [run for run in runs if not run.unfinished]
    if not finished:
        states = f" ({left.states()})" if left.unfinished else ""
        raise ConfigError([f"no finished runs: source={taking.source}{states}; name another source or --study"])
    renamed = [_rename(run, taking.names) for run in require_names(finished, taking.names)]
    scored = [run for run in renamed if math.isfinite(run.metrics.get(taking.score, math.nan))]
    if not scored:
        raise ConfigError([_no_score(renamed, taking)])
    _require_foreign(taking.sweep, ledger)
    metric = declare_metric(taking.score, taking.better, taking.span, [run.metrics[taking.score] for run in scored])
    rows = {row.signature: row for row in ledger.runs(sweep=taking.sweep)}
    told_apart = _require_unlike([_keep_id(run, taking, rows) for run in scored], taking)
    records = sorted((_record(run, taking, metric) for run in told_apart), key=lambda record: record["signature"])
    cells = {_signature(run.id, taking): _cell(run, taking) for run in told_apart}
    hashed = hashlib.sha256(json.dumps(sorted(cells)).encode()).hexdigest()
    source = RecordSource(f"{taking.tool} {taking.source}", hashed, taking.sweep)
    try:
        merged = ledger.merge([*records, _sweep(cells, records, taking, metric)], source)
    except LedgerError as error:
        if not str(error).startswith("two results"):
            raise
        line = str(error).partition(";")[0]
        raise ConfigError(
            [f"{line}; the run changed there, or --score is another: give another --as and --ledger"]
        ) from error
    return merged, left.lines(len(renamed) - len(scored), taking.score), metric


def require_names(runs: Sequence[ForeignRun], names: Mapping[str, str]) -> Sequence[ForeignRun]:
    """The runs; ConfigError for each name that none of them has, and for a key that one has already."""
    have = dict.fromkeys(name for run in runs for part in (run.settings, run.metrics, run.rest) for name in part)
    wrong = [
        f"no such name: rename={name}={key}; {nearest(name, have)}" for name, key in names.items() if name not in have
    ]
    twice = [
        f"two settings of one name: rename={name}={key}, and the runs have {key}; leave the option out"
        for name, key in names.items()
        if name != key and any(key in run.settings for run in runs)
    ]
    keys = Counter(names.values())
    twice += [
        f"two settings of one name: rename={name}={key}; give each its own"
        for name, key in names.items()
        if keys[key] > 1
    ]
    if wrong or twice:
        raise ConfigError([*wrong, *twice])
    return runs


def _no_score(runs: Sequence[ForeignRun], taking: Taking) -> str:
    texts = [str(run.rest[taking.score]) for run in runs if taking.score in run.rest]
    if texts:
        return f"score is no number: score={taking.score} has {texts[0][:40]!r}; export numbers with a decimal point"
    have = sorted({name for run in runs for name in run.metrics})
    return f"no such score: score={taking.score}; {nearest(taking.score, have)}"


def _keep_id(run: ForeignRun, taking: Taking, rows: Mapping[str, RunRow]) -> ForeignRun:
    """The run under the ID that it has in the ledger, with the settings that an earlier import brought."""
    there = rows.get(_signature(run.id, taking))
    if there is None and run.earlier_id and (there := rows.get(_signature(run.earlier_id, taking))) is not None:
        run = replace(run, id=run.earlier_id)
    if there is None:
        return run
    before = {name: value for name, value in there.config.items() if name != DEV}
    return replace(run, settings={**before, **run.settings})


def _require_unlike(runs: Sequence[ForeignRun], taking: Taking) -> Sequence[ForeignRun]:
    """The runs; ConfigError where two have one ID: which of them is which would be a guess at the next import."""
    often = Counter(run.id for run in runs)
    alike = next((name for name, count in often.items() if count > 1), None)
    if alike is not None:
        what = f"runs alike: {often[alike]} of source={taking.source} are {alike[:80]}"
        raise ConfigError([f"{what}; export what tells them apart, such as a column ID"])
    return runs


def _require_foreign(sweep: str, ledger: Ledger) -> None:
    """ConfigError where the sweep has runs of ours: two kinds of runs under one name are never told apart again."""
    ours = [run for run in ledger.runs(sweep=sweep) if IMPORTED not in run.identity]
    if ours or (ledger.sweep_spec(sweep) and not ledger.signatures(sweep)):
        raise ConfigError([f"a sweep of ours: --as {sweep} has runs that were trained here; give another name"])


def _rename(run: ForeignRun, names: Mapping[str, str]) -> ForeignRun:
    """The run with what `names` names as settings, whatever it was taken for."""
    settings = {names.get(name, name): value for name, value in run.settings.items()}
    others: Mapping[str, Scalar] = {**run.metrics, **run.rest}
    settings |= {key: others[name] for name, key in names.items() if name in others and name not in run.settings}
    metrics = {name: value for name, value in run.metrics.items() if name not in names}
    rest = {name: value for name, value in run.rest.items() if name not in names}
    return replace(run, settings=settings, metrics=metrics, rest=rest)


def _signature(name: str, taking: Taking) -> str:
    """24 hexadecimal digits, as ours; the hash of a text that no configuration of ours gives."""
    return hashlib.sha256(json.dumps([IMPORTED, taking.tool, name]).encode()).hexdigest()[:24]


def _seed(run: ForeignRun) -> int:
    values = (run.settings.get(name) for name in SEED_SETTINGS)
    return next((value for value in values if isinstance(value, int) and 0 <= value < 2**31), 0)


def _cell(run: ForeignRun, taking: Taking) -> Record:
    cell = {name: value for name, value in run.settings.items() if name not in SEED_SETTINGS}
    return {"signature": _signature(run.id, taking), "cell_hash": digest(cell), "cell": cell, "seed": _seed(run)}


def _record(run: ForeignRun, taking: Taking, metric: Metric) -> Record:
    """The run as a bundle would have it."""
    at = run.begun or 0.0
    value = -run.metrics[taking.score] if metric.turned else run.metrics[taking.score]
    examples = run.settings.get("train.examples")
    details = {"source": f"{taking.tool} {taking.source}", "id": run.id, "metrics": dict(run.metrics)}
    length = {"examples": examples if isinstance(examples, int) else None, "seconds": run.seconds}
    return {
        "kind": "run",
        "signature": _signature(run.id, taking),
        "state": RunState.DONE,
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
        "history": [{"attempt": 1, "state": RunState.DONE, "at": at, "reason": f"imported from {taking.tool}"}],
        "attempts": [{"attempt": 1, "details": details, **length, "at": at}],
        "curve": [],
        "scores": [],
    }


def _sweep(cells: Mapping[str, Json], records: Sequence[Json], taking: Taking, metric: Metric) -> Record:
    said = spec_of_metric(metric)
    seeds = sorted({int(cell["seed"]) for cell in cells.values()})
    title = f"{taking.tool}'s runs of {taking.source} by {said['score']}"
    return {
        "kind": "sweep",
        "id": taking.sweep,
        "spec": {"title": title, "space": taking.sweep, "seeds": seeds, IMPORTED: taking.tool, **said},
        "created": min(record["created"] for record in records),
        "updated": max(record["updated"] for record in records),
        "cells": [cells[name] for name in sorted(cells)],
        "looks": [],
    }
