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
    """One fault to come: its number in the row, and the seed of all that is random in it."""

    number: int
    seed: int

    @property
    def moment(self) -> Moment:
        return drawn(self.seed, RUNS * EVALUATIONS)


@dataclass
class Struck:
    """A fault that happened, and what was wrong then and later."""

    fault: Fault
    then: checks.Before
    problems: list[str]


def undisturbed(work: Path) -> Sweep:
    """The sweep that nobody hurt; made once for a version of the code."""
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
    """Strike one sweep with these faults in the order of their moments; the problems of each.

    A fault that could not be brought about is a problem too, and ends the sweep: those after it are left out.
    """
    reference = undisturbed(work)
    folder = work / f"{row.__name__}-{faults[0].number}"
    shutil.rmtree(folder, ignore_errors=True)
    sweep, struck = row(folder), []
    try:
        sweep.create()
        sweep.start()
        for fault in sorted(faults, key=lambda one: one.moment.points):
            struck.append(Struck(fault, checks.Before({}, {}, {}), []))
            strike(sweep, struck[-1])
        judge(sweep, reference, struck)
    except Exception as error:
        _blame(struck, f"{type(error).__name__}: {str(error)[:300]}")
    finally:
        sweep.end()
    if not any(one.problems for one in struck):
        shutil.rmtree(folder, ignore_errors=True)
    return [(one.fault, one.problems) for one in struck]


def strike(sweep: Sweep, struck: Struck) -> None:
    sweep.wait(struck.fault.moment)
    struck.then = checks.before(sweep)
    struck.problems += sweep.hurt(np.random.default_rng([struck.fault.seed, 1]))


def judge(sweep: Sweep, reference: Sweep, struck: Sequence[Struck]) -> None:
    """Wait for the end. What is wrong with the whole is told of the last fault."""
    code = sweep.driver.wait(END_S)
    for one in struck:
        one.problems += checks.after(sweep, one.then)
    struck[-1].problems += [f"exit code {code}: {sweep.said()[-300:]}"] if code else []
    struck[-1].problems += checks.whole(sweep, reference)


def _blame(struck: Sequence[Struck], problem: str) -> None:
    """Whatever keeps a sweep from being judged counts against every fault that it took."""
    for one in struck:
        one.problems.append(problem)
