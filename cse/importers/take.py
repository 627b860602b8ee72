"""Writes runs of another tool into a ledger as a sweep of their own; the same run always gets the same signature."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from analysis.answers.imported import (
    IMPORTED,
    Metric,
    declare_metric,
    metric_of_spec,
    protocol_of_metric,
    scale_of_protocols,
    spec_of_metric,
)
from analysis.ledger import Ledger, LedgerError, RunRow, ScoreRow
from analysis.ledger.exchange.columns import Record
from analysis.ledger.exchange.merge import FOREIGN_METRICS, Merged, RecordSource, merge
from analysis.ledger.schema import digest
from analysis.run_state import RunState
from analysis.tables.labels import number_of, some
from analysis.tables.spec import Sense
from cse.importers import INFEASIBLE, DeclaredMetric, ForeignRun, names_of
from cse.importers.columns import NAMES_SHOWN, is_fact, place_numbers
from cse.importers.identity import KnownRun, name_runs
from cse.importers.published import TableRow
from cse.importers.seeds import (
    SEED_NAMES,
    cell_of,
    declare_seed,
    describe_pooled,
    drop_repeated,
    find_seed_name,
    number_seeds,
    seed_of,
)
from cse_train.fields import ConfigError, Settings, nearest
from cse_train.results import Protocol

DEV = "train.dev"
LEFT_TODAY = "would not be taken today; another --as has the table without them"
UNSURE_SEED = "setting or a metric now; --seed NAME names one"
DISPLAY_NAMES = ("name", "Name", "mlflow.runName")
"""Names of the run's name in other tools; listed only where runs of one configuration differ in it."""
TAKES = "--rename NAME=KEY takes one as a setting"


@dataclass(frozen=True, kw_only=True)
class ImportRequest:
    """Settings of one `cse import`: the tool and source, the sweep, and which values are scores, settings and seeds."""

    tool: str
    source: str
    sweep: str
    score: str
    """Name of the metric that becomes each run's best score."""
    is_dev: bool = True
    """True if runs were picked by the score; False if a test score replaces a dev score that the tool lacks."""
    better: Sense | None = None
    """Better direction of the score, where user or tool declares it; scores that should be low are stored negated."""
    span: float | None = None
    """Width of the metric's range, where the user declares it."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The tool's name of a setting -> its name in cse-search."""
    metrics: Sequence[DeclaredMetric] = ()
    """Further metrics that become columns of tables."""
    seed: str | None = None
    """Name of the column or setting that holds the seed."""
    drop: Sequence[str] = ()
    """Settings and columns to leave out."""
    about: str = ""
    """Free text on the code and settings that made the runs."""
    licence: str = ""
    row: TableRow | None = None
    """Row of a paper's table to which the runs belong."""
    is_local: bool = False
    """True if the tool's IDs are unique only within one source, like the row numbers of a table."""

    def sign(self, id: str) -> str:
        """Returns the signature of an imported run: 24 hex digits, hashed from a text that no trained configuration
        produces."""
        scope = [self.sweep] if self.is_local or self.row else []
        return hashlib.sha256(json.dumps([IMPORTED, self.tool, id, *scope]).encode()).hexdigest()[:24]


def take(runs: Sequence[ForeignRun], request: ImportRequest, ledger: Ledger) -> tuple[Merged, list[str], Metric]:
    """Writes the finished runs that have the score; returns what changed, lines for the user, and the score's meaning.

    The lines name everything that was left out or guessed. Raises ConfigError where no run could be taken, a name of
    `request.names` is in no run, two runs are the same, or nobody says which value of a loss is better.
    """
    finished = [run for run in runs if not run.unfinished]
    if not finished:
        counts = f" ({states})" if (states := _count_states(runs)) else ""
        raise ConfigError([f"no finished runs: source={request.source}{counts}; name another source or --study"])
    _require_names(finished, request.names)
    renamed = [_rename(run, request.names) for run in finished]
    known_names = names_of(renamed)
    if wrong := [name for name in request.drop if name not in known_names]:
        raise ConfigError([f"no such name: drop={name}; {nearest(name, known_names)}" for name in wrong])
    renamed = [run.without(request.drop) for run in renamed]
    seed, seeds_found = (request.seed, []) if request.seed else find_seed_name(renamed)
    renamed = declare_seed(renamed, seed) if seed else renamed
    declared = [request.score, *(metric.name for metric in request.metrics)]
    # After the seed: numbers of unknown kind stay metrics only if no two rows then have equal settings.
    renamed = place_numbers(renamed, declared)
    scored = [run for run in renamed if math.isfinite(run.metrics.get(request.score, math.nan))]
    if not scored:
        raise ConfigError([_no_score(renamed, request)])
    metric_names = dict.fromkeys(name for run in scored for name in run.metrics)
    if missing := [metric.name for metric in request.metrics if metric.name not in metric_names]:
        raise ConfigError([f"no such metric: metric={name}; {nearest(name, metric_names)}" for name in missing])
    scored = request.row.settle(scored) if request.row else scored
    _require_foreign(request, ledger)
    before = ledger.sweep_spec(request.sweep)
    values = [run.metrics[request.score] for run in scored]
    metric = declare_metric(request.score, request.better, request.span or before.span, values)
    sweep_rows = {row.signature: row for row in ledger.runs(sweep=request.sweep)}
    if before and request.row is None:
        _require_one_score(metric, request, metric_of_spec(before, list(sweep_rows.values())))
    distinct, repeated = drop_repeated(scored)
    earlier = _read_known(ledger, sweep_rows)
    identified = name_runs([_find_earlier(run, request, sweep_rows) for run in distinct], earlier, request.sweep)
    _require_one_source(identified, earlier, sweep_rows, request)
    rows = {row.signature: row for row in ledger.runs(signatures=[request.sign(run.id) for run in identified])}
    before_by_id = {each.id: each for each in _read_known(ledger, rows)}  # another sweep's too: a run has one row
    if alike := [(id, count) for id, count in Counter(run.id for run in identified).items() if count > 1]:
        # The next import could only guess which is which.
        finding = f"runs alike: {alike[0][1]} of source={request.source} are {alike[0][0][:80]}"
        raise ConfigError([f"{finding}; export what tells them apart, such as a column ID"])
    complete = [_keep_known(run, before_by_id.get(run.id), declared, request.drop) for run in identified]
    numbered = {id: rows[request.sign(id)].seed for id in before_by_id if request.sign(id) in rows}
    seeds = number_seeds(complete, numbered, request.score)
    stored: dict[str, list[ScoreRow]] = {}
    for score in ledger.scores(rows):
        stored.setdefault(score.signature, []).append(score)
    columns = [asked for asked in request.metrics if asked.name != request.score or not request.is_dev]
    beside = [_declare(asked, scored, stored) for asked in columns]
    maker = _RecordMaker(request, metric, beside, stored)
    records = sorted((maker.run(run, seeds[run.id]) for run in complete), key=lambda record: record["signature"])
    sweep = maker.sweep([maker.cell(run, seeds[run.id]) for run in complete], records)
    signatures = json.dumps([record["signature"] for record in records])
    source_hash = _hash_file(request.source) or hashlib.sha256(signatures.encode()).hexdigest()
    source = RecordSource(f"{request.tool} {request.source}", source_hash, request.sweep)
    try:
        merged = merge(ledger, [*records, sweep], source)
    except LedgerError as error:
        if not str(error).startswith("two results"):
            raise
        line = str(error).partition(";")[0]
        advice = "the run changed there, or another sweep has it by another score: give another --as and --ledger"
        raise ConfigError([f"{line}; {advice}"]) from error
    lines = list(dict.fromkeys(line for run in runs for line in run.remarks))
    lines += _list_left_out(runs, scored, request)
    if repeated:
        lines.append(f"left out: {number_of(repeated, 'row')} with what another row says, its seed too")
    unfinished = sum(bool(run.unfinished and run.id) and request.sign(run.id) in sweep_rows for run in runs)
    if unfinished:
        lines.append(f"taken by an earlier import: {number_of(unfinished, 'run')} that {LEFT_TODAY}")
    lines += [f"seed: {seed} says it; --seed NAME names another"] if seed and not request.seed else []
    lines += [f"no seed is read of {', '.join(seeds_found)}, each a {UNSURE_SEED}"] if seeds_found else []
    lines += describe_pooled(complete, [name for run in runs for name in run.rest if is_fact(name)])
    return merged, lines + _list_sources(complete, request, ledger), metric


def _count_states(runs: Sequence[ForeignRun]) -> str:
    """Returns counts of unfinished runs by state, such as `2 crashed, 1 running`."""
    states = Counter(run.unfinished for run in runs if run.unfinished)
    return ", ".join(f"{count} {state}" for state, count in sorted(states.items()))


def _require_names(runs: Sequence[ForeignRun], names: Mapping[str, str]) -> None:
    """Raises ConfigError for each name of --rename that no run has, and for each new name that a run already has."""
    known_names, keys = names_of(runs), Counter(names.values())
    problems = [
        f"no such name: rename={name}={key}; {nearest(name, known_names)}"
        for name, key in names.items()
        if name not in known_names
    ]
    problems += [
        f"two settings of one name: rename={name}={key}, and the runs have {key}; leave the option out"
        for name, key in names.items()
        if name != key and any(key in run.settings for run in runs)
    ]
    problems += [
        f"two settings of one name: rename={name}={key}; give each its own"
        for name, key in names.items()
        if keys[key] > 1
    ]
    if problems:
        raise ConfigError(problems)


def _rename(run: ForeignRun, names: Mapping[str, str]) -> ForeignRun:
    """Returns the run with renamed values as settings, and without metrics that are not finite."""
    settings = {names.get(name, name): value for name, value in run.settings.items()}
    others: Settings = {**run.metrics, **run.rest}
    settings |= {key: others[name] for name, key in names.items() if name in others and name not in run.settings}
    metrics = {name: value for name, value in run.metrics.items() if name not in names and math.isfinite(value)}
    return replace(run.without(names), settings=settings, metrics=metrics)


def _no_score(runs: Sequence[ForeignRun], request: ImportRequest) -> str:
    texts = [str(run.values[request.score]) for run in runs if request.score in run.values]
    if texts:
        return f"score is no number: score={request.score} has {texts[0][:40]!r}; export numbers with a decimal point"
    subject, metrics = f"no such score: score={request.score}", sorted({name for run in runs for name in run.metrics})
    if not metrics:
        return f"{subject}; no run of source={request.source} has a number, export its metrics"
    return f"{subject}; {nearest(request.score, metrics)}"


def _require_foreign(request: ImportRequest, ledger: Ledger) -> None:
    """Raises ConfigError if the sweep has runs that cse-search trained, or runs of another tool."""
    sweep = request.sweep
    tools = {run.identity.get(IMPORTED) for run in ledger.runs(sweep=sweep)}
    if None in tools or (ledger.sweep_spec(sweep) and not ledger.signatures(sweep)):
        raise ConfigError([f"a sweep of ours: --as {sweep} has runs that were trained here; give another name"])
    if others := tools - {request.tool}:
        line = f"a sweep of another tool: --as {sweep} has runs of {', '.join(map(str, others))}"
        raise ConfigError([f"{line}; give another name"])


def _require_one_score(metric: Metric, request: ImportRequest, before: Metric) -> None:
    """Raises ConfigError if the sweep has another score, direction or range, since one column would mix both."""
    subject, span = f"--as {request.sweep} has runs by {before.name}", before.scale.span
    if before.name != metric.name:
        advice = f"give --score {before.name}, and --metric {metric.name} for a column beside it, or another --as"
        raise ConfigError([f"another score: {subject}, and these are by {metric.name}; {advice}"])
    if before.turned != metric.turned:
        ends = [f"the {'lower' if each.turned else 'higher'} value is the better one" for each in (before, metric)]
        raise ConfigError([f"another direction: {subject}, of which {ends[0]}, and here {ends[1]}; give another --as"])
    if request.span not in (None, span):
        width = "of unknown width" if span is None else f"{span:g} wide"
        raise ConfigError([f"another range: {subject}, {width}, and here {request.span:g} wide; give another --as"])


def _read_known(ledger: Ledger, rows: Mapping[str, RunRow]) -> list[KnownRun]:
    """Returns the runs of earlier imports, for comparison with new ones."""
    earlier = []
    for signature, attempts in ledger.provenance(rows).items():
        details = attempts[-1].details
        settings = {name: value for name, value in rows[signature].config.items() if name != DEV}
        metrics = details.get(FOREIGN_METRICS)
        earlier.append(KnownRun(str(details.get("id")), settings, metrics if isinstance(metrics, dict) else {}))
    return earlier


def _find_earlier(run: ForeignRun, request: ImportRequest, rows: Mapping[str, RunRow]) -> ForeignRun:
    """Returns the run under the ID that an earlier version gave it, if the ledger has a run with that ID."""
    is_new = run.id and request.sign(run.id) not in rows
    earlier = is_new and run.earlier_id and request.sign(run.earlier_id) in rows
    return replace(run, id=run.earlier_id) if earlier else run


def _require_one_source(
    runs: Sequence[ForeignRun], earlier: Sequence[KnownRun], rows: Mapping[str, RunRow], request: ImportRequest
) -> None:
    """Raises ConfigError if a row of a paper's table would mix runs of two sources."""
    if request.row is None:
        return
    settings = request.row.settings().items()
    of_row = {each.id for each in earlier if settings <= rows[request.sign(each.id)].config.items()}
    names = {run.id for run in runs}
    if of_row - names and names - of_row:
        line = f"two sources: --as {request.sweep} has {number_of(len(of_row), 'run')} of this row from elsewhere"
        raise ConfigError([f"{line}; give these a sweep of their own: --as {request.row.resolved.space.id}@NAME"])


def _keep_known(
    run: ForeignRun, before: KnownRun | None, declared: Collection[str], dropped: Collection[str]
) -> ForeignRun:
    """Returns the run with settings and metrics of an earlier import added to its own.

    Left out are settings that are declared as metrics today, dropped, or known to be no settings.
    """
    if before is None:
        return run
    excluded = {*filter(is_fact, run.rest), *declared, *run.superseded, *dropped}
    excluded |= {*SEED_NAMES} if seed_of(run) is not None else set()
    settings = {name: value for name, value in before.settings.items() if name not in excluded}
    metrics = {name: value for name, value in before.metrics.items() if name not in {*run.settings, *dropped}}
    return replace(run, settings={**settings, **run.settings}, metrics={**metrics, **run.metrics})


def _declare(asked: DeclaredMetric, runs: Sequence[ForeignRun], stored: Mapping[str, Sequence[ScoreRow]]) -> Metric:
    """Returns a metric's meaning: as declared now, else as in an earlier import, else guessed from its values."""
    scale = scale_of_protocols(
        score.protocol for scores in stored.values() for score in scores if score.suite == asked.name
    )
    if scale is not None and asked.better is None and asked.span is None:
        return Metric(asked.name, scale)
    values = [run.metrics[asked.name] for run in runs if asked.name in run.metrics]
    return declare_metric(asked.name, asked.better, asked.span, values)


@dataclass(frozen=True)
class _RecordMaker:
    """Builds the ledger records of one import, as a bundle would contain them."""

    request: ImportRequest
    metric: Metric
    beside: Sequence[Metric]
    """Metrics that are imported in addition to the score."""
    stored: Mapping[str, Sequence[ScoreRow]]
    """Signature -> scores from earlier imports, which an imported run keeps."""

    def cell(self, run: ForeignRun, seed: int) -> Record:
        """Returns the record that links a run to its cell of the sweep."""
        cell = cell_of(run) if self.request.row is None else dict(self.request.row.cell.key)
        return {"signature": self.request.sign(run.id), "cell_hash": digest(cell), "cell": cell, "seed": seed}

    def run(self, run: ForeignRun, seed: int) -> Record:
        """Returns the record of one run."""
        request, at = self.request, run.begun or 0.0
        measured, signature = run.metrics[request.score], request.sign(run.id)
        examples = run.settings.get("train.examples")
        length = {"examples": examples if isinstance(examples, int) else None, "seconds": run.seconds}
        details = {
            "source": f"{request.tool} {request.source}",
            "id": run.id,
            FOREIGN_METRICS: dict(run.metrics),
            **({"row": run.row, "sha256": _hash_file(request.source)} if run.row else {}),
            **({"about": request.about} if request.about else {}),
            **({"licence": request.licence} if request.licence else {}),
        }
        scores = [_score(row.suite, row.value, row.protocol, row.at) for row in self.stored.get(signature, ())]
        scores += [
            _score(metric.name, run.metrics[metric.name], protocol_of_metric(metric), at)
            for metric in self.beside
            if metric.name in run.metrics
        ]
        by_key = {(score["suite"], score["protocol_hash"]): score for score in scores}
        return {
            "kind": "run",
            "signature": signature,
            "state": RunState.DONE,
            "attempt": 1,
            "method": str(run.settings.get("method", request.tool))[:64],
            "seed": seed,
            "config": {**({DEV: request.score} if request.is_dev else {}), **run.settings},
            "identity": {IMPORTED: request.tool},
            **length,
            "best": -measured if self.metric.turned else measured,
            "best_examples": None,
            "folder": None,
            "reason": None,
            "created": at,
            "updated": at + (run.seconds or 0.0),
            "history": [{"attempt": 1, "state": RunState.DONE, "at": at, "reason": f"imported from {request.tool}"}],
            "attempts": [{"attempt": 1, "details": details, **length, "at": at}],
            "curve": [],
            "scores": [by_key[key] for key in sorted(by_key)],
        }

    def sweep(self, cells: Sequence[Record], runs: Sequence[Record]) -> Record:
        """Returns the record of the sweep that contains the runs."""
        request, declaration = self.request, spec_of_metric(self.metric)
        return {
            "kind": "sweep",
            "id": request.sweep,
            "spec": {
                "title": f"{request.tool}'s runs of {request.source} by {declaration['score']}",
                "space": request.sweep,
                **(request.row.spec() if request.row else {}),
                "seeds": sorted({cell["seed"] for cell in cells}),
                IMPORTED: request.tool,
                **declaration,
            },
            "created": min(run["created"] for run in runs),
            "updated": max(run["updated"] for run in runs),
            "cells": sorted(cells, key=lambda cell: cell["signature"]),
            "looks": [],
        }


def _score(suite: str, value: float | None, protocol: Protocol, at: float) -> Record:
    """Returns a score as a record with the columns of the ledger."""
    files = {"cosines_file": None, "cosines_hash": None}
    facts = dict(protocol.facts)
    return {"suite": suite, "protocol_hash": digest(facts), "value": value, "protocol": facts, **files, "at": at}


def _hash_file(source: str) -> str:
    """Returns the SHA-256 of a file; "" for a source that is no file, such as a folder or an address."""
    path = Path(source).expanduser()
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def _list_left_out(runs: Sequence[ForeignRun], scored: Sequence[ForeignRun], request: ImportRequest) -> list[str]:
    """Returns lines on unfinished runs, runs without the score, and values of a source that are no settings.

    `scored`: the runs that were taken, with their settings.
    """
    infeasible = sum(run.unfinished == INFEASIBLE for run in runs)
    unfinished = [run for run in runs if run.unfinished and run.unfinished != INFEASIBLE]
    unscored = len(runs) - len(unfinished) - infeasible - len(scored)
    used = {request.score, *request.names, *request.drop, *(metric.name for metric in request.metrics), request.seed}
    used |= {name for run in scored for name in run.settings}
    rest = list(dict.fromkeys(name for run in runs for name in run.rest if name not in {*used, *DISPLAY_NAMES}))
    metrics = list(dict.fromkeys(name for run in scored if run.is_flat for name in run.metrics if name not in used))
    counts = [f"{len(unfinished)} not finished ({_count_states(unfinished)})"] if unfinished else []
    counts += [f"{unscored} without {request.score}"] if unscored else []
    lines = [f"left out: runs: {', '.join(counts)}; import again when they have ended"] if counts else []
    lines += [f"left out: {number_of(infeasible, 'run')} that break a constraint"] if infeasible else []
    lines += [f"left out: texts: {some(rest, NAMES_SHOWN)}; {TAKES}"] if rest else []
    return lines + ([f"kept as metrics: {some(metrics, NAMES_SHOWN)}; {TAKES}"] if metrics else [])


def _list_sources(runs: Sequence[ForeignRun], request: ImportRequest, ledger: Ledger) -> list[str]:
    """Returns a line if a configuration also has runs from another source, which may be another model."""
    signatures, cells = {request.sign(run.id) for run in runs}, [cell_of(run) for run in runs]
    shared = [
        link.signature
        for link in ledger.cells(request.sweep)
        if link.signature not in signatures and any(link.cell == cell for cell in cells)
    ]
    attempts = ledger.provenance(shared).values()
    others = dict.fromkeys(str(each[-1].details.get("source")).partition(" ")[2] for each in attempts if each)
    names = [name for name in others if name != request.source]
    finding = f"one configuration of two sources: {request.source} and {some(names, 3)}"
    return [f"{finding}; if these are other models give --as another name"] if names else []
