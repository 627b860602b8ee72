"""Timing one step of several contenders in turn, in one process: what every ratio of the benchmarks stands on.

In a round each contender makes one step, in an order that is reversed every round, so that a machine that slows down
slows all of them. A ratio is taken inside a round; its median and quartiles over rounds are what is printed. CPU
seconds are those of the thread that steps, so other work on the machine changes them little.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Seconds(NamedTuple):
    """CPU and wall time of one step."""

    cpu: float
    wall: float


Step = Callable[[], Seconds]
Times = dict[str, list[Seconds]]
"""Contender -> one entry for each round."""


def now() -> Seconds:
    """Returns the readings of this thread's CPU clock and of the wall clock."""
    return Seconds(time.thread_time(), time.perf_counter())


def timed(work: Callable[[], object]) -> Step:
    """Returns a timed step that calls `work` in the calling thread."""

    def step() -> Seconds:
        begun = now()
        work()
        ended = now()
        return Seconds(ended.cpu - begun.cpu, ended.wall - begun.wall)

    return step


def interleaved(contenders: Mapping[str, Step], rounds: int, seconds: float = float("inf"), warm: int = 1) -> Times:
    """Times each contender in one to `rounds` rounds, none begun after `seconds`; `warm` steps come before."""
    for _ in range(warm):
        for step in contenders.values():
            step()
    times: Times = {name: [] for name in contenders}
    names, until = list(contenders), time.perf_counter() + seconds
    for number in range(rounds):
        if number and time.perf_counter() > until:
            break
        for name in reversed(names) if number % 2 else names:
            times[name].append(contenders[name]())
    return times


@dataclass(frozen=True)
class Ratio:
    """Quotient of two contenders' times, round by round."""

    median: float
    low: float
    """First quartile."""
    high: float
    """Third quartile."""
    rounds: int

    def __str__(self) -> str:
        return f"{self.median:.2f} [{self.low:.2f}, {self.high:.2f}]"


def ratio(slow: list[Seconds], fast: list[Seconds], clock: str = "cpu") -> Ratio:
    """Ratio of two contenders of the same rounds, by the CPU or the wall clock."""
    pairs = [getattr(a, clock) / getattr(b, clock) for a, b in zip(slow, fast, strict=True)]
    low, median, high = np.quantile(pairs, [0.25, 0.5, 0.75])
    return Ratio(float(median), float(low), float(high), len(pairs))


def median_ms(times: list[Seconds], clock: str = "cpu") -> float:
    """Median milliseconds of a step."""
    return 1e3 * float(np.median([getattr(seconds, clock) for seconds in times]))


class _Ended(BaseException):
    """Unwinds a loop that nobody steps any more."""


class SteppedLoop:
    """A training loop of another library, which runs in a thread and stops after each of its optimiser steps.

    `loop(pause)` is called in the thread and must call `pause` after each step. What the loop does before its first
    pause, its set-up, is in the first step's time. A context manager: leaving it unwinds the loop.
    """

    def __init__(self, loop: Callable[[Callable[[], None]], object]) -> None:
        self._loop = loop
        self._go, self._done = threading.Semaphore(0), threading.Semaphore(0)
        self._took, self._ended, self._error = Seconds(0.0, 0.0), False, None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "SteppedLoop":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._go.release()
        self._thread.join()

    def __call__(self) -> Seconds:
        """Let the loop make one step. Raises what the loop raises, StopIteration when it is over."""
        if self._error is not None:
            raise self._error
        self._go.release()
        self._done.acquire()
        if self._error is not None:
            raise self._error
        return self._took

    def _run(self) -> None:
        error: BaseException
        try:
            self._await()
            self._loop(self._pause)
            error = StopIteration("the loop is over")
        except _Ended:
            return
        except BaseException as raised:
            error = raised
        self._error = error
        self._done.release()

    def _pause(self) -> None:
        ended = now()
        self._took = Seconds(ended.cpu - self._begun.cpu, ended.wall - self._begun.wall)
        self._done.release()
        self._await()

    def _await(self) -> None:
        self._go.acquire()
        if self._ended:
            raise _Ended
        self._begun = now()
