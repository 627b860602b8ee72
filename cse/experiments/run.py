"""Runs of a plan, trained with progress, monitoring and retention around them."""

import dataclasses
from collections import Counter

from cluster.monitor.exporter import Monitor, each
from cluster.monitor.progress import Progress
from cluster.sweep.events import OnEvent, SweepOutcome
from cluster.sweep.retention import Pruner
from cluster.sweep.run_sweep import run_sweep
from cse.experiments.request import Request, Work
from search_spaces.cell_names import cell_name


def run_grid(request: Request, work: Work, *also: OnEvent) -> SweepOutcome:
    """Train and score what the ledger lacks; shows progress on stderr, and passes every event to `also`."""
    labels = {run.signature: cell_name(run.cell, run.seed) for run in work.runs}
    sweeps = {run.signature: run.sweep for run in work.runs}
    totals, options = Counter(sweeps.values()), request.options
    with (
        Progress(len(work.runs), labels=labels, reused=work.finished) as progress,
        Monitor(request.ledger, sweeps, totals=totals, labels=labels, reused=work.finished) as monitor,
        Pruner(request.ledger, options) as pruner,
    ):
        listeners = each(progress, monitor, pruner, *also)
        outcome = run_sweep(work.runs, request.ledger, request.paths, options, listeners, work.suites)
    return dataclasses.replace(outcome, freed=pruner.freed, over=pruner.over)
