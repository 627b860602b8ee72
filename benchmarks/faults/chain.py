"""Several faults in one sweep: each at its own moment, and what is left is checked for each at the end."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.faults import checks
from benchmarks.faults.moment import Moment, drawn
from benchmarks.faults.sweep import END_S, EVALUATIONS, RUNS, Sweep


@dataclass(frozen=True)
class Fault:
    """Planned fault: its number in the row, and the seed of all that is random in it."""

    number: int
    seed: int

    @property
    def moment(self) -> Moment:
        return drawn(self.seed, RUNS * EVALUATIONS)


@dataclass
class Injected:
    """Injected fault, with the problems found right after it and later."""

    fault: Fault
    then: checks.Before
    problems: list[str]


def undisturbed(work: Path) -> Sweep:
    """The sweep without a fault; made once for a version of the code."""
    sweep = Sweep(work / "undisturbed")
    if not (sweep.folder / "whole").exists():
        shutil.rmtree(sweep.folder)
        sweep = Sweep(work / "undisturbed")
        try:
            assert sweep.start().wait(END_S) == 0, sweep.said()
            (sweep.folder / "whole").touch()
        finally:
            sweep.end()
    return sweep


def carry(row: type[Sweep], faults: Sequence[Fault], work: Path) -> list[tuple[Fault, list[str]]]:
    """Inject these faults into one sweep in the order of their moments; the problems of each.

    A fault that could not be brought about is a problem too, and ends the sweep: those after it are left out.
    """
    reference = undisturbed(work)
    folder = work / f"{row.__name__}-{faults[0].number}"
    shutil.rmtree(folder, ignore_errors=True)
    sweep, injections = row(folder), []
    try:
        sweep.create()
        sweep.start()
        for fault in sorted(faults, key=lambda fault: fault.moment.points):
            injections.append(Injected(fault, checks.Before({}, {}, {}), []))
            inject(sweep, injections[-1])
        judge(sweep, reference, injections)
    except Exception as error:
        _blame(injections, f"{type(error).__name__}: {str(error)[:300]}")
    finally:
        sweep.end()
    if not any(injected.problems for injected in injections):
        shutil.rmtree(folder, ignore_errors=True)
    return [(injected.fault, injected.problems) for injected in injections]


def inject(sweep: Sweep, injected: Injected) -> None:
    sweep.wait(injected.fault.moment)
    injected.then = checks.before(sweep)
    injected.problems += sweep.hurt(np.random.default_rng([injected.fault.seed, 1]))


def judge(sweep: Sweep, reference: Sweep, injections: Sequence[Injected]) -> None:
    """Wait for the end. What is wrong with the whole sweep counts against the last fault."""
    code = sweep.driver.wait(END_S)
    for injected in injections:
        injected.problems += checks.after(sweep, injected.then)
    injections[-1].problems += [f"exit code {code}: {sweep.said()[-300:]}"] if code else []
    injections[-1].problems += checks.whole(sweep, reference)


def _blame(injections: Sequence[Injected], problem: str) -> None:
    """Adds a problem that keeps the sweep from being judged to every fault that it took."""
    for injected in injections:
        injected.problems.append(problem)
