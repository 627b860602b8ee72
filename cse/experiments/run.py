"""Trains the runs of a grid, those that a search proposes, or finished ones again whose files are gone.

A sweep has progress, monitoring, trackers and retention. A run that is trained once more, by its settings, seed and
inputs, is bitwise equal.
"""

import contextlib
import dataclasses
import functools
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from analysis.ledger import Ledger, RunRow
from analysis.matching import RunMatcher
from analysis.run_state import RunState
from cluster.monitor.exporter import Monitor, each
from cluster.monitor.progress import Progress
from cluster.plan.plan import PlannedRun
from cluster.plan.planner import Identify, runs_of
from cluster.plan.run_source import RunSource
from cluster.runtime.options import AshaOptions
from cluster.search.budget import Account, BudgetSource, Clock, Unit, whole_length
from cluster.search.optuna_studies import StudyMirror, mirror_url
from cluster.search.search import Feed, ScoreFeed, SearchSource, make_search
from cluster.sweep.events import EventKind, OnEvent, SweepEvent, SweepOutcome
from cluster.sweep.ledger_retry import RetryingLedger
from cluster.sweep.retention import Pruner
from cluster.sweep.run_sweep import run_sweep
from cse.experiments.request import Request, Work, check_code, methods_of, plan_of, record
from cse.experiments.tables import LookSource
from cse.experiments.tracking import track_sweep
from cse_train.fields import ConfigError
from search_spaces.cell_names import cell_name
from search_spaces.cells import Cell, ResolvedSpace, some_cells, sweep_name
from search_spaces.identity.method_code import own_digest
from search_spaces.identity.signature import CODE, examples_in, identity, signature

RunsFor = Callable[[Cell, Sequence[int]], list[PlannedRun]]
RETRAIN_REASON = "its files were gone, it is trained again"


def run_grid(request: Request, work: Work, *also: OnEvent, source: LookSource | None = None) -> SweepOutcome:
    """Trains and scores the runs that the ledger lacks; shows progress on stderr, and passes every event to `also`.

    `source`: hands out the runs of `work`, if not all of them need be trained.
    """
    labels = {run.signature: cell_name(run.cell, run.seed) for run in work.runs}
    sweeps = {run.signature: run.sweep for run in work.runs}
    totals = Counter(sweeps.values()) if source is None else source.totals
    with _listeners(request, sweeps, totals, labels, work.finished if source is None else ()) as (tell, pruner, _):
        runs, listeners = work.runs if source is None else source, each(tell, *also)
        outcome = run_sweep(runs, request.ledger, request.paths, request.options, listeners, work.suites)
    return dataclasses.replace(outcome, freed=pruner.freed, over=pruner.over)


def run_search(request: Request, ledger: Ledger) -> SweepOutcome:
    """Lets the space's sampler propose cells until the search is done; every run is recorded when it is proposed."""
    resolved, name = request.resolved, sweep_name(request.resolved)
    plan = plan_of([request], ledger)
    print(*(f"{line}\n" for line in plan.stale()), sep="", end="", flush=True)
    changed = plan.changed()
    if changed and request.keep:  # a search counts runs of the present code alone
        raise ConfigError([f"{line.partition(';')[0]}; a search takes none of them, give --rerun" for line in changed])
    check_code(request, changed)
    identify = functools.partial(identity, paths=request.paths, workers=request.options.workers)
    labels: dict[str, str] = {}
    sweeps: dict[str, str] = {}
    spent: list[str] = []
    limits = (resolved.size(), resolved.space.search.num_samples if resolved.space.search else None)
    num_samples = min(count for count in limits if count is not None) * len(request.seeds)

    # `source` and `retrying` are assigned below, before the search proposes its first run.
    def runs_for(cell: Cell, seeds: Sequence[int]) -> list[PlannedRun]:
        planned = runs_of(resolved, cell, seeds, identify(cell.run(0)))
        runs = [dataclasses.replace(run, sweep=name) for run in planned]
        if isinstance(source, BudgetSource):
            spent[:] = source.spent()
        record(request, retrying, runs, num_samples=num_samples, spent=spent)  # type: ignore[arg-type]
        sweeps.update({run.signature: name for run in runs})
        labels.update({run.signature: cell_name(run.cell, run.seed) for run in runs})
        return runs

    options = dataclasses.replace(request.options, asha=_asha(resolved, identify))
    over = threading.Event()
    suites = {name: resolved.space.evaluate}
    mirror = StudyMirror(mirror_url(request.ledger), resolved) if request.mirror else None
    listening = _listeners(request, sweeps, {name: num_samples}, labels, notes=spent)
    with listening as (tell, pruner, monitor), mirror or contextlib.nullcontext():
        retrying = RetryingLedger(ledger, over, lambda line: tell(SweepEvent(kind=EventKind.LEDGER, reason=line)))
        source = _source_of(request, retrying, identify, runs_for, mirror)  # type: ignore[arg-type]
        if isinstance(source, BudgetSource):
            monitor.spent = source.shares
        outcome = run_sweep(source, request.ledger, request.paths, options, tell, suites, over)
        if isinstance(source, BudgetSource):
            spent[:] = source.lines()
            record(request, retrying, [], num_samples=num_samples, spent=spent)  # type: ignore[arg-type]
    print(*(f"{line}\n" for line in spent), sep="", end="")
    return dataclasses.replace(outcome, freed=pruner.freed, over=pruner.over)


@contextlib.contextmanager
def _listeners(
    request: Request,
    sweeps: Mapping[str, str],
    totals: Mapping[str, int],
    labels: Mapping[str, str],
    reused: Collection[str] = (),
    notes: Sequence[str] = (),
) -> Iterator[tuple[OnEvent, Pruner, Monitor]]:
    """Combines the listeners of a sweep's events: progress, metrics, trackers and the pruner of checkpoints.

    Yields the combined listener, the pruner, whose figures go into the outcome, and the monitor.
    """
    storage = request.options.storage
    with (
        Progress(totals, labels=labels, reused=reused, notes=notes) as progress,
        Monitor(request.ledger, storage, sweeps, totals=totals, labels=labels, reused=reused) as monitor,
        track_sweep(request.ledger, sweeps, labels, request.track, storage) as tracking,
        Pruner(request.ledger, request.options) as pruner,
    ):
        yield each(progress, monitor, tracking, pruner), pruner, monitor


def _source_of(
    request: Request, ledger: Ledger, identify: Identify, runs_for: RunsFor, mirror: StudyMirror | None
) -> RunSource:
    """Returns the search as a source of runs, within the budgets; runs of other drivers are read from the ledger."""
    resolved, seeds = request.resolved, tuple(request.seeds)
    all_rows, at = ledger.changed(None)
    matcher = RunMatcher(resolved, lambda run: signature(run, identify(run)))
    rows = [row for row in all_rows if matcher.cells(row)]
    recorded = Feed(ledger, matcher, at).rows
    search = make_search(resolved, rows, matcher, seeds=seeds, mirror=mirror, recorded=recorded)
    scores = ScoreFeed(ledger, Feed(ledger, matcher, at), rows)
    source = SearchSource(search, lambda cell: runs_for(cell, seeds), scores.points)
    if not request.budgets:
        return source
    methods, length = methods_of(resolved), functools.partial(whole_length, matcher)
    gpus = request.options.gpus_per_run
    accounts = [Account(limit, methods, rows, length, gpus) for limit in request.budgets if limit.unit != Unit.CLOCK]
    clocks = [Clock(budget, rows, request.begun) for budget in request.budgets if budget.unit is Unit.CLOCK]
    return BudgetSource(source, accounts, methods, Feed(ledger, matcher, at).rows, *clocks)


def _asha(resolved: ResolvedSpace, identify: Identify) -> AshaOptions | None:
    settings = resolved.space.search
    if settings is None or settings.scheduler is None:
        return None
    runs = [cell.run(0) for cell in some_cells(resolved)]
    top = max(examples_in(run, identify(run)) or 0 for run in runs)
    grace = max(1, round(settings.grace_fraction * top))
    return AshaOptions(grace_examples=grace, max_examples=top, reduction_factor=settings.reduction_factor)


def find_without_files(request: Request, ledger: Ledger) -> list[PlannedRun]:
    """Returns finished runs of a space without a best checkpoint, if their inputs and code are the present ones."""
    (space,) = plan_of([request], ledger).spaces
    resolved, identify = (
        request.resolved,
        functools.partial(identity, paths=request.paths, workers=request.options.workers),
    )
    finished = [run for run in space.runs if run.signature in space.done]
    if space.is_search:
        matcher = RunMatcher(resolved, lambda run: signature(run, identify(run)))
        for row in ledger.runs(states=[RunState.DONE]):
            for cell in matcher.cells(row) if row.seed in request.seeds else ():
                finished += runs_of(resolved, cell, [row.seed], identify(cell.run(row.seed)))
    planned = {run.signature: run for run in finished if run.identity.get(CODE) == own_digest(run.run.method)}
    rows = {row.signature: row for row in ledger.runs(states=[RunState.DONE], signatures=planned)}
    without = [planned[name] for name, row in rows.items() if row.files is None or not row.files.best.is_dir()]
    return [dataclasses.replace(run, sweep=sweep_name(resolved)) for run in without]


def reopen_runs(request: Request, ledger: Ledger, runs: Sequence[PlannedRun]) -> Work:
    """Marks the runs as lost until they are trained, and returns them as work.

    The rest of a run's folder is set aside, since a run would otherwise resume from the state of a finished one.
    """
    for row in ledger.runs(signatures=[run.signature for run in runs]):
        if row.files is not None and row.files.path.is_dir():
            row.files.path.rename(row.files.set_aside(row.attempt).path)
    ledger.reopen([run.signature for run in runs], RETRAIN_REASON)
    unscorable = plan_of([request], ledger).unscorable
    suites = {
        run.signature: [name for name in request.resolved.suites_of(run.cell) if name not in unscorable] for run in runs
    }
    return Work((), runs, frozenset(), frozenset(), suites=suites, unscorable=unscorable)


def differing(earlier_rows: Sequence[RunRow], ledger: Ledger) -> list[str]:
    """Returns a line for each retrained run whose best score has changed."""
    names = [row.signature for row in earlier_rows]
    best = {row.signature: row.best for row in ledger.runs(states=[RunState.DONE], signatures=names)}
    return [
        f"not the same: run={row.signature} has best {best[row.signature]}, it had {row.best}; "
        "another machine or other versions of the libraries computed it"
        for row in earlier_rows
        if row.signature in best and best[row.signature] != row.best
    ]
