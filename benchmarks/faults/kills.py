"""Rows of processes that are killed or asked to end."""

import signal
import time

import numpy as np

from benchmarks.faults.checks import Before, before, late_writes, problems
from benchmarks.faults.moment import Moment
from benchmarks.faults.sweep import END_S, Sweep, until

SAVED_S = 10.0


def worker(sweep: Sweep, reference: Sweep, moment: Moment, seed: int) -> list[str]:
    """Kill -9 of one rank: the driver replaces it and nobody gives a command."""
    driver = sweep.start()
    sweep.wait(moment, driver)
    until(lambda: sweep.ranks() or driver.poll() is not None, END_S)
    ranks = sweep.ranks()
    victim = ranks[int(np.random.default_rng(seed).integers(len(ranks)))]
    then = before(sweep)
    victim.kill()
    code = driver.wait(END_S)
    return [*_ended(sweep, code), *problems(sweep, reference, then)]


def driver(sweep: Sweep, reference: Sweep, moment: Moment, seed: int) -> list[str]:
    """Kill -9 of the driver, then the same command."""
    first = sweep.start()
    sweep.wait(moment, first)
    then = before(sweep)
    first.kill()
    first.wait()
    return _again(sweep, reference, then)


def interrupt(sweep: Sweep, reference: Sweep, moment: Moment, seed: int) -> list[str]:
    """SIGINT or SIGTERM, by turns of the seed, then the same command."""
    first = sweep.start()
    sweep.wait(moment, first)
    then, begun = before(sweep), time.monotonic()
    first.send_signal(signal.SIGINT if seed % 2 else signal.SIGTERM)
    until(lambda: not any(row.live for row in sweep.rows()), 120)
    saved = time.monotonic() - begun
    code = first.wait(END_S)
    found = [] if code == 130 else [f"exit code {code}, not 130"]
    found += [] if saved <= SAVED_S else [f"saved after {saved:.1f} s"]
    return [*found, *_again(sweep, reference, then)]


def two_drivers(sweep: Sweep, reference: Sweep, moment: Moment, seed: int) -> list[str]:
    """The command given twice, the second time at the moment."""
    first = sweep.start()
    sweep.wait(moment, first)
    then, second = before(sweep), sweep.start()
    codes = [first.wait(END_S), second.wait(END_S)]
    found = [] if codes == [0, 0] else [f"exit codes {codes}"]
    attempts = [row.attempt for row in sweep.rows() if row.attempt != 1]
    return [*found, *(f"attempt {n}" for n in attempts), *problems(sweep, reference, then)]


def _again(sweep: Sweep, reference: Sweep, then: Before) -> list[str]:
    code = sweep.start().wait(END_S)
    return [*_ended(sweep, code), *problems(sweep, reference, then), *late_writes(sweep, then)]


def _ended(sweep: Sweep, code: int) -> list[str]:
    return [] if code == 0 else [f"exit code {code}: {sweep.said()[-300:]}"]
