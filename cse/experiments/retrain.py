"""Trains finished runs whose files are gone once more, to bitwise equal results, by their settings, seed and inputs."""

from collections.abc import Iterator, Sequence

from analysis.ledger import Ledger, RunRow
from analysis.matching import RunMatcher
from analysis.run_state import RunState
from cluster.plan.plan import PlannedRun
from cluster.plan.planner import runs_of
from cse.experiments.request import Request, Work, plan_of
from cse_train.config import RunConfig
from search_spaces.cells import sweep_name
from search_spaces.identity.method_code import own_digest
from search_spaces.identity.signature import CODE, identity, signature

RETRAIN_REASON = "its files were gone, it is trained again"


def find_without_files(request: Request, ledger: Ledger) -> list[PlannedRun]:
    """Returns finished runs of a space without a best checkpoint, if their inputs and code are the present ones."""
    finished = _list_finished(request, ledger)
    planned = {run.signature: run for run in finished if run.identity.get(CODE) == own_digest(run.run.method)}
    rows = {row.signature: row for row in ledger.runs(states=[RunState.DONE], signatures=planned)}
    return [planned[name] for name, row in rows.items() if row.files is None or not row.files.best.is_dir()]


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
    retrained = {
        row.signature: row
        for row in ledger.runs(states=[RunState.DONE], signatures=[row.signature for row in earlier_rows])
    }
    return [
        f"not the same: run={row.signature} has best {retrained[row.signature].best}, it had {row.best}; "
        "another machine or other versions of the libraries computed it"
        for row in earlier_rows
        if row.signature in retrained and retrained[row.signature].best != row.best
    ]


def _list_finished(request: Request, ledger: Ledger) -> Iterator[PlannedRun]:
    (space,) = plan_of([request], ledger).spaces
    sweep = sweep_name(request.resolved)
    yield from (PlannedRun(**{**vars(run), "sweep": sweep}) for run in space.runs if run.signature in space.done)
    if space.is_search:
        yield from _list_found(request, ledger, sweep)


def _list_found(request: Request, ledger: Ledger, sweep: str) -> Iterator[PlannedRun]:
    """Yields the finished runs of a search."""

    def hashes(run: RunConfig) -> dict[str, str | int]:
        return identity(run, request.paths, request.options.workers)

    matcher = RunMatcher(request.resolved, lambda run: signature(run, hashes(run)))
    for row in ledger.runs(states=[RunState.DONE]):
        for cell in matcher.cells(row) if row.seed in request.seeds else ():
            (run,) = runs_of(request.resolved, cell, [row.seed], hashes(cell.run(row.seed)))
            yield PlannedRun(**{**vars(run), "sweep": sweep})
