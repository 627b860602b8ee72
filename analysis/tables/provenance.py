"""Provenance of one cell of a table: its runs, where each came from, and in what they differ."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from analysis.ledger import Ledger, RunRow
from analysis.tables.results import Planned, results_of
from cse_train.results import Protocol

UNIQUE_DETAILS = ("id", "metrics", "row")
"""Details that differ between any two imported runs, so that they are not compared."""


@dataclass(frozen=True)
class Attempt:
    """One attempt at a run, how it ended, and where it ran."""

    attempt: int
    state: str
    reason: str | None
    examples: int | None
    seconds: float | None
    details: Mapping[str, object]
    """Commit, versions, host and hardware."""


@dataclass(frozen=True)
class SeedRun:
    """Run of one seed with everything that the ledger has of it."""

    run: RunRow
    values: Mapping[str, float | None]
    """Column -> value; None if the run is not done or was not scored."""
    dev: Mapping[str, float | None]
    """Column -> the dev score by which the run's checkpoint was picked; None for the dev set's own column."""
    attempts: tuple[Attempt, ...]
    checkpoint: str | None
    """Folder of the best checkpoint; None if it is not on this machine."""
    sweeps: tuple[str, ...]
    """Names of all sweeps that the run belongs to."""
    source: str | None = None
    """Sentence on where an imported run comes from; None for a run that was trained here."""


@dataclass(frozen=True)
class Origins:
    """Provenance and inputs of several runs, compared field by field."""

    shared: Mapping[str, object]
    differing: Mapping[str, Mapping[str, tuple[int, ...]]]
    """Field in which runs differ -> {value: the seeds that have it}."""


def seed_runs(
    ledger: Ledger, runs: Sequence[RunRow], columns: Sequence[str], names: Mapping[str, str] | None = None
) -> tuple[list[SeedRun], dict[str, list[Protocol]]]:
    """Returns the runs by seed, and column -> distinct protocols of its scores. `names` is column -> stored suite."""
    planned: list[Planned] = [({}, run.signature, run.seed) for run in runs]
    values: dict[str, dict[str, float | None]] = {run.signature: {} for run in runs}
    dev: dict[str, dict[str, float | None]] = {run.signature: {} for run in runs}
    protocols: dict[str, list[Protocol]] = {column: [] for column in columns}
    for result in results_of(ledger, planned, columns, names, runs):
        column, value = result.column, result.value
        values[result.signature][column] = None if math.isnan(value) else value
        dev[result.signature][column] = result.dev
        if result.protocol and result.protocol not in protocols[column]:
            protocols[column].append(result.protocol)
    swept, imported = _sweeps(ledger, values), ledger.imports(values)
    sources = {signature: source.line() for signature, source in imported.items()}
    rows = [
        _seed_run(ledger, run, values[name], dev[name], swept[name], sources.get(name))
        for name, run in ((run.signature, run) for run in runs)
    ]
    return sorted(rows, key=lambda row: row.run.seed), protocols


def _seed_run(
    ledger: Ledger,
    run: RunRow,
    values: Mapping[str, float | None],
    dev: Mapping[str, float | None],
    sweeps: Sequence[str],
    source: str | None,
) -> SeedRun:
    ends = {row.attempt: row for row in ledger.history(run.signature)}
    attempts = tuple(
        Attempt(row.attempt, ends[row.attempt].state, ends[row.attempt].reason, row.examples, row.seconds, row.details)
        for row in ledger.provenance([run.signature]).get(run.signature, [])
    )
    best = run.files.best if run.files and run.files.best.is_dir() else None
    return SeedRun(run, values, dev, attempts, None if best is None else str(best), tuple(sweeps), source)


def _sweeps(ledger: Ledger, signatures: Iterable[str]) -> dict[str, list[str]]:
    sweeps: dict[str, list[str]] = {signature: [] for signature in signatures}
    for sweep in ledger.sweeps():
        for signature in {link.signature for link in ledger.cells(sweep.id)} & sweeps.keys():
            sweeps[signature].append(sweep.id)
    return sweeps


def origins(runs: Sequence[SeedRun]) -> Origins:
    """Returns what the runs' last attempts and inputs have in common, and every field in which two of them differ."""
    facts = {seed_run.run.seed: _facts(seed_run) for seed_run in runs}
    names = dict.fromkeys(name for seed_facts in facts.values() for name in seed_facts)
    values = {name: _seeds_by_value(name, facts) for name in names}
    shared = {name: json.loads(next(iter(by_value))) for name, by_value in values.items() if len(by_value) == 1}
    differing = {name: by_value for name, by_value in values.items() if len(by_value) > 1}
    return Origins(shared, differing)


def _facts(seed_run: SeedRun) -> dict[str, object]:
    every = seed_run.attempts[-1].details if seed_run.attempts else {}
    details = {name: value for name, value in every.items() if name not in UNIQUE_DETAILS}
    flat = {name: value for name, value in details.items() if not isinstance(value, Mapping)}
    nested = {
        f"{name}.{inner}": value
        for name, group in details.items()
        if isinstance(group, Mapping)
        for inner, value in group.items()
    }
    return {**flat, **nested, **{f"input.{name}": value for name, value in seed_run.run.identity.items()}}


def _seeds_by_value(name: str, facts: Mapping[int, Mapping[str, object]]) -> dict[str, tuple[int, ...]]:
    seeds: dict[str, tuple[int, ...]] = {}
    for seed, seed_facts in facts.items():
        value = json.dumps(seed_facts.get(name), sort_keys=True)
        seeds[value] = (*seeds.get(value, ()), seed)
    return seeds
