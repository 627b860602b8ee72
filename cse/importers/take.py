"""Writes runs of another tool into a ledger, as a sweep of their own."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from analysis.answers.imported import IMPORTED
from analysis.answers.imported.metric import Metric, declare_metric, metric_of_spec, scale_of_protocols
from analysis.ledger import Ledger, LedgerError, RunRow
from analysis.ledger.exchange.columns import Record
from analysis.ledger.exchange.merge import FOREIGN_METRICS, Merged, RecordSource
from analysis.tables.labels import number_of, some
from cse.importers import ForeignRun
from cse.importers.columns import is_fact, place_numbers
from cse.importers.identity import KnownRun, name_runs
from cse.importers.left_out_runs import count_states, list_left_out
from cse.importers.metrics import DeclaredMetric
from cse.importers.records import DEV, ImportRequest, RecordMaker, read_scores
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
from cse.importers.tables import hash_file
from cse_train.fields import ConfigError, Scalar, nearest
from cse_train.results import Protocol

LEFT_TODAY = "would not be taken today; another --as has the table without them"
UNSURE_SEED = "setting or a metric now; --seed NAME names one"


def take(runs: Sequence[ForeignRun], request: ImportRequest, ledger: Ledger) -> tuple[Merged, list[str], Metric]:
    """Writes the finished runs that have the score; returns what changed, lines for the user, and the score's meaning.

    The lines name everything that was left out or guessed. Raises ConfigError where no run could be taken, a name of
    `request.names` is in no run, two runs are the same, or nobody says which value of a loss is better.
    """
    states = count_states(runs)
    finished = [run for run in runs if not run.unfinished]
    if not finished:
        counts = f" ({states})" if states else ""
        raise ConfigError([f"no finished runs: source={request.source}{counts}; name another source or --study"])
    renamed = [_rename(run, request.names) for run in require_names(finished, request.names)]
    renamed = _drop(renamed, request.drop)
    seed, seeds_found = (request.seed, []) if request.seed else find_seed_name(renamed)
    renamed = declare_seed(renamed, seed) if seed else renamed
    declared = [request.score, *(metric.name for metric in request.metrics)]
    # After the seed: numbers of unknown kind stay metrics only if no two rows then have equal settings.
    renamed = place_numbers(renamed, declared)
    scored = [run for run in renamed if math.isfinite(run.metrics.get(request.score, math.nan))]
    if not scored:
        raise ConfigError([_no_score(renamed, request)])
    _require_metrics(scored, request.metrics)
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
    unique = _require_unlike(identified, request)
    complete = [_keep_known(run, before_by_id.get(run.id), declared, request.drop) for run in unique]
    numbered = {id: rows[request.sign(id)].seed for id in before_by_id if request.sign(id) in rows}
    seeds = number_seeds(complete, numbered, request.score)
    stored = read_scores(ledger, rows)
    columns = [asked for asked in request.metrics if asked.name != request.score or not request.is_dev]
    beside = [_declare(asked, scored, stored) for asked in columns]
    maker = RecordMaker(request, metric, beside, stored)
    records = sorted((maker.run(run, seeds[run.id]) for run in complete), key=lambda record: record["signature"])
    cells = {request.sign(run.id): maker.cell(run, seeds[run.id]) for run in complete}
    source_hash = hash_file(request.source) or hashlib.sha256(json.dumps(sorted(cells)).encode()).hexdigest()
    source = RecordSource(f"{request.tool} {request.source}", source_hash, request.sweep)
    try:
        merged = ledger.merge([*records, maker.sweep(cells, records)], source)
    except LedgerError as error:
        if not str(error).startswith("two results"):
            raise
        line = str(error).partition(";")[0]
        advice = "the run changed there, or another sweep has it by another score: give another --as and --ledger"
        raise ConfigError([f"{line}; {advice}"]) from error
    lines = list(dict.fromkeys(line for run in runs for line in run.remarks))
    lines += list_left_out(runs, scored, request)
    lines += [f"left out: {number_of(repeated, 'row')} with what another row says, its seed too"] if repeated else []
    unfinished = [run for run in runs if run.unfinished and run.id and request.sign(run.id) in sweep_rows]
    lines += (
        [f"taken by an earlier import: {number_of(len(unfinished), 'run')} that {LEFT_TODAY}"] if unfinished else []
    )
    lines += [f"seed: {seed} says it; --seed NAME names another"] if seed and not request.seed else []
    lines += [f"no seed is read of {', '.join(seeds_found)}, each a {UNSURE_SEED}"] if seeds_found else []
    lines += describe_pooled(complete, [name for run in runs for name in run.rest if is_fact(name)]) + _list_sources(
        complete, request, ledger
    )
    return merged, lines, metric


def _declare(asked: DeclaredMetric, runs: Sequence[ForeignRun], stored: Mapping[str, Sequence[Record]]) -> Metric:
    """Returns a metric's meaning: as declared now, else as in an earlier import, else guessed from its values."""
    earlier_protocols = [
        Protocol.read(score["protocol"]) for each in stored.values() for score in each if score["suite"] == asked.name
    ]
    scale = scale_of_protocols(earlier_protocols)
    if scale is not None and asked.better is None and asked.span is None:
        return Metric(asked.name, scale)
    values = [run.metrics[asked.name] for run in runs if asked.name in run.metrics]
    return declare_metric(asked.name, asked.better, asked.span, values)


def require_names(runs: Sequence[ForeignRun], names: Mapping[str, str]) -> Sequence[ForeignRun]:
    """Returns the runs; ConfigError for each name that no run has, and for each new name that a run already has."""
    known_names = dict.fromkeys(name for run in runs for part in (run.settings, run.metrics, run.rest) for name in part)
    wrong = [
        f"no such name: rename={name}={key}; {nearest(name, known_names)}"
        for name, key in names.items()
        if name not in known_names
    ]
    conflicts = [
        f"two settings of one name: rename={name}={key}, and the runs have {key}; leave the option out"
        for name, key in names.items()
        if name != key and any(key in run.settings for run in runs)
    ]
    keys = Counter(names.values())
    conflicts += [
        f"two settings of one name: rename={name}={key}; give each its own"
        for name, key in names.items()
        if keys[key] > 1
    ]
    if wrong or conflicts:
        raise ConfigError([*wrong, *conflicts])
    return runs


def _no_score(runs: Sequence[ForeignRun], request: ImportRequest) -> str:
    others = [{**run.rest, **run.settings} for run in runs]
    texts = [str(other[request.score]) for other in others if request.score in other]
    if texts:
        return f"score is no number: score={request.score} has {texts[0][:40]!r}; export numbers with a decimal point"
    metrics = sorted({name for run in runs for name in run.metrics})
    if not metrics:
        return (
            f"no such score: score={request.score}; no run of source={request.source} has a number, export its metrics"
        )
    return f"no such score: score={request.score}; {nearest(request.score, metrics)}"


def _require_metrics(runs: Sequence[ForeignRun], metrics: Sequence[DeclaredMetric]) -> None:
    """Raises ConfigError for each metric of which no run has a number."""
    metric_names = dict.fromkeys(name for run in runs for name in run.metrics)
    missing = [metric.name for metric in metrics if metric.name not in metric_names]
    if missing:
        raise ConfigError([f"no such metric: metric={name}; {nearest(name, metric_names)}" for name in missing])


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


def _drop(runs: Sequence[ForeignRun], names: Collection[str]) -> list[ForeignRun]:
    """Returns the runs without the dropped names. Raises ConfigError for a name that no run has."""
    known_names = dict.fromkeys(name for run in runs for part in (run.settings, run.metrics, run.rest) for name in part)
    if wrong := [name for name in names if name not in known_names]:
        raise ConfigError([f"no such name: drop={name}; {nearest(name, known_names)}" for name in wrong])
    return [
        replace(
            run,
            settings={name: value for name, value in run.settings.items() if name not in names},
            metrics={name: value for name, value in run.metrics.items() if name not in names},
            rest={name: value for name, value in run.rest.items() if name not in names},
        )
        for run in runs
    ]


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


def _require_unlike(runs: Sequence[ForeignRun], request: ImportRequest) -> Sequence[ForeignRun]:
    """Returns the runs; ConfigError if two have one ID, since the next import could only guess which is which."""
    counts = Counter(run.id for run in runs)
    shared_id = next((name for name, count in counts.items() if count > 1), None)
    if shared_id is not None:
        finding = f"runs alike: {counts[shared_id]} of source={request.source} are {shared_id[:80]}"
        raise ConfigError([f"{finding}; export what tells them apart, such as a column ID"])
    return runs


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


def _rename(run: ForeignRun, names: Mapping[str, str]) -> ForeignRun:
    """Returns the run with renamed values as settings, and without metrics that are not finite."""
    settings = {names.get(name, name): value for name, value in run.settings.items()}
    others: Mapping[str, Scalar] = {**run.metrics, **run.rest}
    settings |= {key: others[name] for name, key in names.items() if name in others and name not in run.settings}
    metrics = {name: value for name, value in run.metrics.items() if name not in names and math.isfinite(value)}
    rest = {name: value for name, value in run.rest.items() if name not in names}
    return replace(run, settings=settings, metrics=metrics, rest=rest)
