"""Runs of a plan, trained with progress, monitoring and retention around them."""

import dataclasses
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from cluster.monitor.exporter import Monitor, each
from cluster.monitor.progress import Progress
from cluster.plan.plan import PlannedRun
from cluster.runtime.options import SweepOptions
from cluster.sweep.events import OnEvent, SweepOutcome
from cluster.sweep.retention import Pruner
from cluster.sweep.run_sweep import run_sweep
from cse.experiments.request import Request, Work
from cse_train.data_paths import DataPaths
from search_spaces.cell_names import cell_name


def run_grid(request: Request, work: Work, *also: OnEvent) -> SweepOutcome:
    """Train and score what the ledger lacks; shows progress on stderr, and passes every event to `also`."""
    return run_planned(work.runs, work.finished, request.ledger, request.paths, request.options, work.suites, also)


def run_planned(
    runs: Sequence[PlannedRun],
    finished: Collection[str],
    ledger: str,
    paths: DataPaths,
    options: SweepOptions,
    suites: Mapping[str, Sequence[str]] | None = None,
    also: Sequence[OnEvent] = (),
) -> SweepOutcome:
    """`run_sweep` of distinct runs with progress; `finished` are those that the ledger has, `also` listens too."""
    labels = {run.signature: cell_name(run.cell, run.seed) for run in runs}
    sweeps = {run.signature: run.sweep for run in runs}
    totals = Counter(sweeps.values())
    with (
        Progress(len(runs), labels=labels, reused=finished) as progress,
        Monitor(ledger, sweeps, totals=totals, labels=labels, reused=finished) as monitor,
        Pruner(ledger, options) as pruner,
    ):
        outcome = run_sweep(runs, ledger, paths, options, each(progress, monitor, pruner, *also), suites)
    return dataclasses.replace(outcome, freed=pruner.freed, over=pruner.over)
