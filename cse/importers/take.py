"""Runs of another tool into a ledger, under a sweep of their own."""

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
from cse.importers.left import count_states, list_left_out
from cse.importers.metrics import Asked
from cse.importers.records import DEV, RecordMaker, Taking, read_scores
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


def take(runs: Sequence[ForeignRun], taking: Taking, ledger: Ledger) -> tuple[Merged, list[str], Metric]:
    """Write the finished ones with the score; what changed, a line for each thing that was not taken or not understood,
    and what the score means.

    ConfigError where nothing could be taken, a name of `taking.names` is none that a run has, or two runs are one, and
    for a loss of which nobody says which value is better.
    """
    states = count_states(runs)
    finished = [run for run in runs if not run.unfinished]
    if not finished:
        counted = f" ({states})" if states else ""
        raise ConfigError([f"no finished runs: source={taking.source}{counted}; name another source or --study"])
    renamed = [_rename(run, taking.names) for run in require_names(finished, taking.names)]
    renamed = _drop(renamed, taking.drop)
    seed, seeds_found = (taking.seed, []) if taking.seed else find_seed_name(renamed)
    renamed = declare_seed(renamed, seed) if seed else renamed
    declared = [taking.score, *(metric.name for metric in taking.metrics)]
    renamed = place_numbers(renamed, declared)
    scored = [run for run in renamed if math.isfinite(run.metrics.get(taking.score, math.nan))]
    if not scored:
        raise ConfigError([_no_score(renamed, taking)])
    _require_metrics(scored, taking.metrics)
    scored = taking.row.settle(scored) if taking.row else scored
    _require_foreign(taking, ledger)
    before = ledger.sweep_spec(taking.sweep)
    values = [run.metrics[taking.score] for run in scored]
    metric = declare_metric(taking.score, taking.better, taking.span or before.span, values)
    there = {row.signature: row for row in ledger.runs(sweep=taking.sweep)}
    if before and taking.row is None:
        _require_one_score(metric, taking, metric_of_spec(before, list(there.values())))
    once, repeated = drop_repeated(scored)
    earlier = _read_known(ledger, there)
    named = name_runs([_find_earlier(run, taking, there) for run in once], earlier, taking.sweep)
    _require_one_source(named, earlier, there, taking)
    rows = {row.signature: row for row in ledger.runs(signatures=[taking.sign(run.id) for run in named])}
    before_by_id = {each.id: each for each in _read_known(ledger, rows)}  # another sweep's too: a run has one row
    unlike = _require_unlike(named, taking)
    told_apart = [_keep_known(run, before_by_id.get(run.id), declared, taking.drop) for run in unlike]
    numbered = {id: rows[taking.sign(id)].seed for id in before_by_id if taking.sign(id) in rows}
    seeds = number_seeds(told_apart, numbered, taking.score)
    stored = read_scores(ledger, rows)
    columns = [asked for asked in taking.metrics if asked.name != taking.score or not taking.is_dev]
    beside = [_declare(asked, scored, stored) for asked in columns]
    maker = RecordMaker(taking, metric, beside, stored)
    records = sorted((maker.run(run, seeds[run.id]) for run in told_apart), key=lambda record: record["signature"])
    cells = {taking.sign(run.id): maker.cell(run, seeds[run.id]) for run in told_apart}
    hashed = hash_file(taking.source) or hashlib.sha256(json.dumps(sorted(cells)).encode()).hexdigest()
    source = RecordSource(f"{taking.tool} {taking.source}", hashed, taking.sweep)
    try:
        merged = ledger.merge([*records, maker.sweep(cells, records)], source)
    except LedgerError as error:
        if not str(error).startswith("two results"):
            raise
        line = str(error).partition(";")[0]
        how = "the run changed there, or another sweep has it by another score: give another --as and --ledger"
        raise ConfigError([f"{line}; {how}"]) from error
    lines = list(dict.fromkeys(line for run in runs for line in run.remarks))
    lines += list_left_out(runs, scored, taking)
    lines += [f"left out: {number_of(repeated, 'row')} with what another row says, its seed too"] if repeated else []
    gone = [run for run in runs if run.unfinished and run.id and taking.sign(run.id) in there]
    lines += [f"taken by an earlier import: {number_of(len(gone), 'run')} that {LEFT_TODAY}"] if gone else []
    lines += [f"seed: {seed} says it; --seed NAME names another"] if seed and not taking.seed else []
    lines += [f"no seed is read of {', '.join(seeds_found)}, each a {UNSURE_SEED}"] if seeds_found else []
    lines += describe_pooled(told_apart, [name for run in runs for name in run.rest if is_fact(name)]) + _list_sources(
        told_apart, taking, ledger
    )
    return merged, lines, metric


def _declare(asked: Asked, runs: Sequence[ForeignRun], stored: Mapping[str, Sequence[Record]]) -> Metric:
    """What a metric means: as it is declared now, else as an earlier import understood it, else as its values say."""
    before = [
        Protocol.read(score["protocol"]) for each in stored.values() for score in each if score["suite"] == asked.name
    ]
    scale = scale_of_protocols(before)
    if scale is not None and asked.better is None and asked.span is None:
        return Metric(asked.name, scale)
    values = [run.metrics[asked.name] for run in runs if asked.name in run.metrics]
    return declare_metric(asked.name, asked.better, asked.span, values)


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
    others = [{**run.rest, **run.settings} for run in runs]
    texts = [str(other[taking.score]) for other in others if taking.score in other]
    if texts:
        return f"score is no number: score={taking.score} has {texts[0][:40]!r}; export numbers with a decimal point"
    have = sorted({name for run in runs for name in run.metrics})
    if not have:
        return f"no such score: score={taking.score}; no run of source={taking.source} has a number, export its metrics"
    return f"no such score: score={taking.score}; {nearest(taking.score, have)}"


def _require_metrics(runs: Sequence[ForeignRun], metrics: Sequence[Asked]) -> None:
    """ConfigError for each metric that no run has as a number."""
    have = dict.fromkeys(name for run in runs for name in run.metrics)
    lacking = [metric.name for metric in metrics if metric.name not in have]
    if lacking:
        raise ConfigError([f"no such metric: metric={name}; {nearest(name, have)}" for name in lacking])


def _read_known(ledger: Ledger, rows: Mapping[str, RunRow]) -> list[KnownRun]:
    """What an earlier import brought."""
    earlier = []
    for signature, attempts in ledger.provenance(rows).items():
        details = attempts[-1].details
        settings = {name: value for name, value in rows[signature].config.items() if name != DEV}
        metrics = details.get(FOREIGN_METRICS)
        earlier.append(KnownRun(str(details.get("id")), settings, metrics if isinstance(metrics, dict) else {}))
    return earlier


def _find_earlier(run: ForeignRun, taking: Taking, rows: Mapping[str, RunRow]) -> ForeignRun:
    """The run under the ID that an earlier version gave it, where the ledger has that one."""
    is_new = run.id and taking.sign(run.id) not in rows
    earlier = is_new and run.earlier_id and taking.sign(run.earlier_id) in rows
    return replace(run, id=run.earlier_id) if earlier else run


def _drop(runs: Sequence[ForeignRun], names: Collection[str]) -> list[ForeignRun]:
    """The runs without what a person leaves out. ConfigError for a name that none of them has."""
    have = dict.fromkeys(name for run in runs for part in (run.settings, run.metrics, run.rest) for name in part)
    if wrong := [name for name in names if name not in have]:
        raise ConfigError([f"no such name: drop={name}; {nearest(name, have)}" for name in wrong])
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
    """The run with the settings and metrics that an earlier import brought beside its own, but for settings that are
    declared as metrics today, are left out, or are known to be none."""
    if before is None:
        return run
    none = {*filter(is_fact, run.rest), *declared, *run.superseded, *dropped}
    none |= {*SEED_NAMES} if seed_of(run) is not None else set()
    settings = {name: value for name, value in before.settings.items() if name not in none}
    metrics = {name: value for name, value in before.metrics.items() if name not in {*run.settings, *dropped}}
    return replace(run, settings={**settings, **run.settings}, metrics={**metrics, **run.metrics})


def _list_sources(runs: Sequence[ForeignRun], taking: Taking, ledger: Ledger) -> list[str]:
    """A line where a configuration has runs of another source too, of which nobody says that it is the same."""
    signatures, cells = {taking.sign(run.id) for run in runs}, [cell_of(run) for run in runs]
    shared = [
        link.signature
        for link in ledger.cells(taking.sweep)
        if link.signature not in signatures and any(link.cell == cell for cell in cells)
    ]
    attempts = ledger.provenance(shared).values()
    others = dict.fromkeys(str(each[-1].details.get("source")).partition(" ")[2] for each in attempts if each)
    names = [name for name in others if name != taking.source]
    what = f"one configuration of two sources: {taking.source} and {some(names, 3)}"
    return [f"{what}; if these are other models give --as another name"] if names else []


def _require_unlike(runs: Sequence[ForeignRun], taking: Taking) -> Sequence[ForeignRun]:
    """The runs; ConfigError where two have one ID: which of them is which would be a guess at the next import."""
    often = Counter(run.id for run in runs)
    alike = next((name for name, count in often.items() if count > 1), None)
    if alike is not None:
        what = f"runs alike: {often[alike]} of source={taking.source} are {alike[:80]}"
        raise ConfigError([f"{what}; export what tells them apart, such as a column ID"])
    return runs


def _require_one_source(
    runs: Sequence[ForeignRun], earlier: Sequence[KnownRun], there: Mapping[str, RunRow], taking: Taking
) -> None:
    """ConfigError where a row of a paper's table would mix the runs of two sources."""
    if taking.row is None:
        return
    settings = taking.row.settings().items()
    of_row = {each.id for each in earlier if settings <= there[taking.sign(each.id)].config.items()}
    names = {run.id for run in runs}
    if of_row - names and names - of_row:
        line = f"two sources: --as {taking.sweep} has {number_of(len(of_row), 'run')} of this row from elsewhere"
        raise ConfigError([f"{line}; give these a sweep of their own: --as {taking.row.resolved.space.id}@NAME"])


def _require_foreign(taking: Taking, ledger: Ledger) -> None:
    """ConfigError where the sweep has runs of ours, or another tool's: these are never told apart again."""
    sweep = taking.sweep
    tools = {run.identity.get(IMPORTED) for run in ledger.runs(sweep=sweep)}
    if None in tools or (ledger.sweep_spec(sweep) and not ledger.signatures(sweep)):
        raise ConfigError([f"a sweep of ours: --as {sweep} has runs that were trained here; give another name"])
    if others := tools - {taking.tool}:
        line = f"a sweep of another tool: --as {sweep} has runs of {', '.join(map(str, others))}"
        raise ConfigError([f"{line}; give another name"])


def _require_one_score(metric: Metric, taking: Taking, before: Metric) -> None:
    """ConfigError where the sweep counts another metric, its other end, or its range otherwise: one column would mix
    both."""
    has, span = f"--as {taking.sweep} has runs by {before.name}", before.scale.span
    if before.name != metric.name:
        how = f"give --score {before.name}, and --metric {metric.name} for a column beside it, or another --as"
        raise ConfigError([f"another score: {has}, and these are by {metric.name}; {how}"])
    if before.turned != metric.turned:
        ends = [f"the {'lower' if each.turned else 'higher'} value is the better one" for each in (before, metric)]
        raise ConfigError([f"another direction: {has}, of which {ends[0]}, and here {ends[1]}; give another --as"])
    if taking.span not in (None, span):
        wide = "of unknown width" if span is None else f"{span:g} wide"
        raise ConfigError([f"another range: {has}, {wide}, and here {taking.span:g} wide; give another --as"])


def _rename(run: ForeignRun, names: Mapping[str, str]) -> ForeignRun:
    """The run with what `names` names as settings, whatever it was taken for, and with its finite metrics alone."""
    settings = {names.get(name, name): value for name, value in run.settings.items()}
    others: Mapping[str, Scalar] = {**run.metrics, **run.rest}
    settings |= {key: others[name] for name, key in names.items() if name in others and name not in run.settings}
    metrics = {name: value for name, value in run.metrics.items() if name not in names and math.isfinite(value)}
    rest = {name: value for name, value in run.rest.items() if name not in names}
    return replace(run, settings=settings, metrics=metrics, rest=rest)
