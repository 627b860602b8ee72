"""From a resolved space to a finished sweep: plan, record, run with progress, tell what failed."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cluster.commands import failure

if TYPE_CHECKING:
    from analysis.ledger import Ledger
    from cluster.cells import ResolvedSpace
    from cluster.options import SweepOptions, SweepOutcome
    from cluster.plan import PlannedRun
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
    """What a grid needs: its runs, and how many of them the ledger has."""

    runs: "Sequence[PlannedRun]"
    total: int
    finished: frozenset[str]
    """Signatures that the ledger has as done."""
    scored: bool
    """Whether every finished run has a score on each suite that the space names."""

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


def work_of(request: Request, ledger: "Ledger") -> Work:
    """Plan a grid against the ledger, and record the sweep there. ConfigError for data that is not at hand."""
    from cluster.plan import plan

    resolved = request.resolved
    found = plan(
        [resolved.space],
        resolved.profile,
        request.seeds,
        ledger,
        request.paths,
        overrides=resolved.overrides,
        workers=request.options.workers,
        need_inputs=True,
    )
    runs = [dataclasses.replace(run, sweep=sweep_name(resolved)) for run in found.runs]
    record(request, ledger, runs)
    done = frozenset(signature for space in found.spaces for signature in space.done)
    unique = list({run.signature: run for run in runs}.values())
    return Work(unique, len(unique), done, _scored(request, ledger, done))


def sweep_name(resolved: "ResolvedSpace") -> str:
    """The space's ID, with what differs from its file: `E7`, `E7@paper`, `E7 train.examples=640`."""
    space, profile = resolved.space, resolved.profile
    where = space.id if profile.name == space.profile else f"{space.id}@{profile.name}"
    return " ".join([where, *(f"{key}={value}" for key, value in sorted(resolved.overrides.items()))])


def _scored(request: Request, ledger: "Ledger", done: Collection[str]) -> bool:
    have = {(score.signature, score.suite) for score in ledger.scores(done)} if done else set()
    return all((signature, suite) in have for signature in done for suite in request.resolved.space.evaluate)


def record(request: Request, ledger: "Ledger", runs: "Sequence[PlannedRun]") -> None:
    """Write the sweep and which runs belong to it into the ledger."""
    space = request.resolved.space
    spec = {
        "title": space.title,
        "space": space.id,
        "file": str(space.file.resolve()),
        "profile": request.resolved.profile.name,
        "set": dict(request.resolved.overrides),
        "seeds": list(request.seeds),
    }
    name = sweep_name(request.resolved)
    ledger.record_sweep(name, spec)
    ledger.link_all(name, [(run.signature, run.cell, run.seed) for run in runs])


def run_grid(request: Request, work: Work) -> "SweepOutcome":
    """Train and score what the ledger lacks; shows progress on stderr."""
    suites = {sweep_name(request.resolved): request.resolved.space.evaluate}
    return run_planned(work.runs, work.finished, request.ledger, request.paths, request.options, suites)


def run_planned(
    runs: "Sequence[PlannedRun]",
    finished: Collection[str],
    ledger: str,
    paths: "DataPaths",
    options: "SweepOptions",
    suites: Mapping[str, Sequence[str]] | None = None,
) -> "SweepOutcome":
    """`run_sweep` of distinct runs with progress; `finished` are those that the ledger has."""
    from cluster.progress import Progress
    from cluster.sweep import run_sweep

    labels = {run.signature: label(run.cell, run.seed) for run in runs}
    horizon = {run.signature: run.run.train.examples for run in runs}
    with Progress(len(runs), labels=labels, horizon=horizon, reused=finished) as progress:
        return run_sweep(runs, ledger, paths, options, progress, suites)


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
        f"in {outcome.seconds:.0f} s; ledger {ledger}"
    )
    if outcome.interrupted:
        failure.say(["interrupted; finished runs are kept, the same command continues"])
        return failure.INTERRUPTED
    failure.say([f"failed: {one.reason}" + (f"; log {one.log}" if one.log else "") for one in outcome.failures])
    return failure.FAILED if outcome.failures else failure.DONE
