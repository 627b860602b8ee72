"""From a resolved space to a finished sweep: plan, record, run with progress, tell what failed."""

import dataclasses
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from analysis.shown_url import shown_url
from cluster.commands import failure

if TYPE_CHECKING:
    from analysis.ledger import Ledger
    from cluster.blocked import Blocked
    from cluster.cells import ResolvedSpace
    from cluster.options import OnEvent, SweepOptions, SweepOutcome
    from cluster.plan import PlannedRun
    from cluster.pruning import Pruner
    from cluster.search_budget import Budget
    from cse_train.config import DataPaths


@dataclass(frozen=True, kw_only=True)
class Request:
    """A sweep as a person asked for it."""

    resolved: "ResolvedSpace"
    seeds: Sequence[int]
    paths: "DataPaths"
    ledger: str
    options: "SweepOptions"
    budget: "Budget | None" = None
    """What may be spent in all; None for whatever the space asks for."""


@dataclass(frozen=True)
class Work:
    """What tables need: their runs, how many of them the ledger has, and which cells cannot be trained here."""

    runs: "Sequence[PlannedRun]"
    total: int
    finished: frozenset[str]
    """Signatures that the ledger has as done."""
    scored: bool
    """Whether every finished run has each column of the suites that its tables name."""
    blocked: "Sequence[Blocked]" = ()
    suites: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Signature -> the suites of every table that the run belongs to, but for those below."""
    unscorable: Mapping[str, str] = field(default_factory=dict)
    """Suites whose data are not at hand, with the reason."""

    @property
    def done(self) -> int:
        return len(self.finished)

    @property
    def nothing_left(self) -> bool:
        return self.done == self.total and self.scored

    def line(self) -> str:
        if self.nothing_left:
            return f"{self.done}/{self.total} already in the ledger, 0 run"
        return f"{self.total} runs: {self.done} already in the ledger, {self.total - self.done} to run"


def announce(work: Work, ledger: str) -> None:
    """Print what there is to do, and which cells are blocked and why."""
    from cluster.blocked import by_reason

    unscored = [f"not scored: {suite}: {why}" for suite, why in work.unscorable.items()]
    print("\n".join([f"{work.line()}  (ledger {shown_url(ledger)})", *by_reason(work.blocked), *unscored]), flush=True)


def work_of(request: Request, ledger: "Ledger") -> Work:
    """Plan a table against the ledger, and record the sweep there. ConfigError where every cell is blocked."""
    return work_of_all([request], ledger)


def work_of_all(requests: Sequence[Request], ledger: "Ledger") -> Work:
    """The same of several tables, which train a run that they share once.

    A table of which every cell is blocked is told in `blocked`; ConfigError where nothing is left of all of them.
    """
    from cluster.plan import plan_all

    first = requests[0]
    asked = [(request.resolved, tuple(request.seeds)) for request in requests]
    planned = plan_all(asked, ledger, first.paths, workers=first.options.workers)
    runs: list[PlannedRun] = []
    wanted: dict[str, list[str]] = {}
    for request, space in zip(requests, planned.spaces, strict=True):
        sweep = sweep_name(request.resolved)
        own = [dataclasses.replace(run, sweep=sweep) for run in space.runs if run.signature not in space.held]
        record(request, ledger, own, space.blocked)
        for run in own:
            suites = (name for name in request.resolved.space.evaluate if name not in planned.unscorable)
            wanted.setdefault(run.signature, []).extend(suites)
        runs += own
    unique = list({run.signature: run for run in runs}.values())
    done = frozenset(signature for space in planned.spaces for signature in space.done)
    blocked = [one for space in planned.spaces for one in space.blocked]
    return Work(unique, len(unique), done, _scored(ledger, done, wanted), blocked, wanted, planned.unscorable)


def sweep_name(resolved: "ResolvedSpace") -> str:
    """The space's ID, with what differs from its file: `E7`, `E7@paper`, `E7 train.examples=640`."""
    space, profile = resolved.space, resolved.profile
    where = space.id if profile.name == space.profile else f"{space.id}@{profile.name}"
    return " ".join([where, *(f"{key}={value}" for key, value in sorted(resolved.overrides.items()))])


def _scored(ledger: "Ledger", done: Collection[str], wanted: Mapping[str, Sequence[str]]) -> bool:
    from cse_train.evaluate.columns import unscored

    have: dict[str, set[str]] = {signature: set() for signature in done}
    for score in ledger.scores(done) if done else ():
        have[score.signature].add(score.suite)
    return not any(unscored(wanted.get(signature, ()), have[signature]) for signature in done)


def record(
    request: Request,
    ledger: "Ledger",
    runs: "Sequence[PlannedRun]",
    blocked: "Sequence[Blocked]" = (),
    asked: int | None = None,
) -> None:
    """Write the sweep, its runs and blocked cells into the ledger; `asked`: runs that a search makes at most."""
    space = request.resolved.space
    spec = {
        "title": space.title,
        "space": space.id,
        "file": str(space.file.resolve()),
        "profile": request.resolved.profile.name,
        "set": dict(request.resolved.overrides),
        "seeds": list(request.seeds),
        "blocked": {one.label: one.reason for one in blocked},
        "asked": asked,
    }
    name = sweep_name(request.resolved)
    ledger.record_sweep(name, spec)
    ledger.link_all(name, [(run.signature, run.cell, run.seed) for run in runs])


def run_grid(request: Request, work: Work, *also: "OnEvent") -> "SweepOutcome":
    """Train and score what the ledger lacks; shows progress on stderr, and tells `also` of every event."""
    return run_planned(work.runs, work.finished, request.ledger, request.paths, request.options, work.suites, also)


def run_planned(
    runs: "Sequence[PlannedRun]",
    finished: Collection[str],
    ledger: str,
    paths: "DataPaths",
    options: "SweepOptions",
    suites: Mapping[str, Sequence[str]] | None = None,
    also: "Sequence[OnEvent]" = (),
) -> "SweepOutcome":
    """`run_sweep` of distinct runs with progress; `finished` are those that the ledger has, `also` listens too."""
    from cluster.monitor import Monitor, each
    from cluster.progress import Progress
    from cluster.pruning import Pruner
    from cluster.sweep import run_sweep

    labels = {run.signature: label(run.cell, run.seed) for run in runs}
    horizon = {run.signature: run.run.train.examples for run in runs}
    sweeps = {run.signature: run.sweep for run in runs}
    totals = Counter(sweeps.values())
    with (
        Progress(len(runs), labels=labels, horizon=horizon, reused=finished) as progress,
        Monitor(ledger, sweeps, totals=totals, labels=labels, horizon=horizon, reused=finished) as monitor,
        Pruner(ledger, options) as pruner,
    ):
        outcome = run_sweep(runs, ledger, paths, options, each(progress, monitor, pruner, *also), suites)
    tell_pruned(pruner)
    return outcome


def tell_pruned(pruner: "Pruner") -> None:
    """Print what --keep-top and --disk-quota freed, and what must stay although the quota asks for more."""
    if pruner.freed:
        print(f"{pruner.freed / 1e6:.1f} MB of checkpoints freed")
    if pruner.over:
        failure.say([f"above --disk-quota: {pruner.over / 1e6:.1f} MB too much is in use or has scores; give more"])


def flat_examples(resolved: "ResolvedSpace") -> list[int]:
    """Training examples of the runs of a space."""
    from cluster.commands.table import setups

    return [int(str(flat["train.examples"])) for flat in setups(resolved)]


def label(cell: Mapping[str, Any], seed: int) -> str:
    """A run in a person's words: `dup_rate=0.32 seed 1`."""
    settings = (f"{key.rpartition('.')[2]}={value}" for key, value in cell.items())
    return " ".join([*settings, f"seed {seed}"])


def told(outcome: "SweepOutcome", ledger: str) -> int:
    """Print how a sweep ended; returns the exit code."""
    print(
        f"{outcome.done} done, {outcome.failed} failed, {outcome.stopped} stopped, {outcome.reused} reused "
        f"in {outcome.seconds:.0f} s; ledger {shown_url(ledger)}"
    )
    if outcome.interrupted:
        failure.say(["interrupted; finished runs are kept, the same command continues"])
        return failure.INTERRUPTED
    failure.say([f"failed: {one.reason}" + (f"; log {one.log}" if one.log else "") for one in outcome.failures])
    return failure.FAILED if outcome.failures else failure.DONE
