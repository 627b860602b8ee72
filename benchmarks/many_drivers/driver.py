"""A driver without Ray: the dispatcher, its ledger and heartbeats are the sweep's own, its slots only wait."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis.ledger import Ledger
from benchmarks.growth import synthetic_ledger
from cluster.plan.plan import PlannedRun
from cluster.plan.run_source import ListSource
from cluster.plan.signature import signature
from cluster.runtime.options import SweepOptions
from cluster.slots.group_api import Plain, SlotResult
from cluster.sweep.dispatcher import Dispatcher
from cluster.sweep.recorder import ClaimedRun
from cluster.sweep.run_sweep import HEARTBEAT_S
from cse_train.data_paths import DataPaths
from search_spaces.catalog import load_space
from search_spaces.cells import resolve

FIRST_SEED = 100
LOOK_S = 0.05
"""Seconds between two looks at the slots."""


@dataclass(frozen=True)
class Pace:
    """Of a trial that only waits."""

    slots: int
    seconds: float
    points: int


@dataclass
class Used:
    """What one driver did and took."""

    ended: int = 0
    cpu_s: float = 0.0
    """Of its thread, in the time of the measurement."""
    asked_ms: list[float] = field(default_factory=list)
    """CPU of each time that a slot asked for a run, which also reads what other drivers did."""
    slowest_s: float = 0.0
    """The longest wait for the database, of any step."""


class Driver:
    """Gives its slots runs until the time is over."""

    def __init__(self, url: str, planned: Sequence[PlannedRun], storage: Path, name: str, pace: Pace) -> None:
        self.ledger, self.pace, self.name, self.used = Ledger.open(url), pace, name, Used()
        options = SweepOptions(storage=storage)
        source = ListSource(planned)
        self.dispatcher = Dispatcher(source, self.ledger, DataPaths(), options, name, {}, lambda event: None)
        self.slots: dict[int, tuple[ClaimedRun, float, int]] = {}
        """Slot -> its run, when it began, and the points that it has reported."""

    def go(self, seconds: float) -> Used:
        """For so long, or until the list is done; what is still held then is given back."""
        over = threading.Event()
        beats = threading.Thread(target=self._beat, args=(over,))
        beats.start()
        until, before = time.monotonic() + seconds, time.thread_time()
        while time.monotonic() < until and not self.dispatcher.finished():
            self._look()
            time.sleep(LOOK_S)
        self.used.cpu_s = time.thread_time() - before
        over.set()
        beats.join()
        self.ledger.release(self.name)
        self.ledger.close()
        return self.used

    def _beat(self, over: threading.Event) -> None:
        while not over.wait(HEARTBEAT_S):
            self._waited(lambda: self.ledger.heartbeat(self.name))

    def _look(self) -> None:
        for slot in range(self.pace.slots):
            if slot in self.slots:
                self._advance(slot)
            else:
                self._fill(slot)

    def _fill(self, slot: int) -> None:
        begun = time.thread_time()
        claimed = self._waited(self.dispatcher.next_run)
        self.used.asked_ms.append(1000 * (time.thread_time() - begun))
        if not isinstance(claimed, ClaimedRun):
            return
        claimed.folder.mkdir(parents=True, exist_ok=True)
        self._waited(lambda: self.dispatcher.recorder.started(claimed))
        self.slots[slot] = (claimed, time.monotonic(), 0)

    def _advance(self, slot: int) -> None:
        claimed, began, reported = self.slots[slot]
        due = min(self.pace.points, int((time.monotonic() - began) / self.pace.seconds * self.pace.points))
        if due == reported:
            return
        examples = claimed.planned.examples or 0
        done = due == self.pace.points
        result = told(reported, due, self.pace.points, examples, done)
        self._waited(lambda: self.dispatcher.recorder.progressed(claimed, result))
        self.slots[slot] = (claimed, began, due)
        if done:
            self._waited(lambda: self.dispatcher.recorder.ended(claimed, result))
            del self.slots[slot]
            self.used.ended += 1

    def _waited(self, step: Callable[[], object]) -> object:
        begun = time.monotonic()
        try:
            return step()
        finally:
            self.used.slowest_s = max(self.used.slowest_s, time.monotonic() - begun)


def told(reported: int, due: int, last: int, examples: int, done: bool) -> SlotResult:
    """What a slot says after so many points."""
    points: list[Plain] = [
        {
            "examples": examples * number // last,
            "step": number,
            "seconds": float(number),
            "best": 40.0 + number,
            "best_examples": examples * number // last,
            "metrics": {"sts_dev": 40.0 + number, "loss": 1.0 / number},
        }
        for number in range(reported + 1, due + 1)
    ]
    state = "done" if done else "running"
    outcome: Plain = {**points[-1], "state": state} if done else {}
    return SlotResult(
        examples=points[-1]["examples"], best=points[-1]["best"], state=state, points=points, scores=[], reason="",
        outcome=outcome, retried="", waits_for="", done=done,
    )  # fmt: skip


def further_runs(space: Path, count: int) -> list[PlannedRun]:
    """Runs of the grid that the ledger does not have."""
    cells = resolve(load_space(space)).cells()
    runs = []
    for order in range(count):
        cell, seed = cells[order % len(cells)], FIRST_SEED + order // len(cells)
        run, identity = cell.run(seed), synthetic_ledger.IDENTITY
        runs.append(PlannedRun(signature(run, identity), run, identity, dict(cell.key), seed, synthetic_ledger.SWEEP))
    return runs


def drive(url: str, space: Path, storage: Path, name: str, pace: Pace, runs: int, seconds: float, pipe: Any) -> None:
    """One driver, in a process of its own: ready, then told to go, then what it used.

    A spawned process imports no `__main__` of a package, so this stands here.
    """
    driver = Driver(url, further_runs(space, runs), storage, name, pace)
    pipe.send("ready")
    pipe.recv()
    pipe.send(driver.go(seconds))
