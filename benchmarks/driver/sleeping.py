"""Trials that sleep, for `benchmarks.driver.orchestration`: in a stub of a group, a real one, or a Tune function.

A trial is told by a folder and its number. The first trial of each slot lasts until every slot has one and the driver
knows it, so that the clock starts with all slots warm; every other one sleeps for so many seconds. They tell each other
by files.
"""

import json
import os
import re
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cluster.slots.group_api import DoneEvent, Event, Group, GroupSettings, Job, PointEvent
from cse_train.results import Outcome, Point

POLL_S = 0.2
SETTLE_S = 1.0
"""Seconds between the mark that all slots are up and the start of the clock: each first trial has read it by then."""


@dataclass(frozen=True)
class Load:
    """Sizes that the trials of one measurement share; stored as `load.json` of `folder`."""

    folder: str
    slots: int
    seconds: float
    rounds: int
    drivers: int = 1
    """Number of drivers, which share the slots equally."""

    @classmethod
    def read(cls, file: Path) -> "Load":
        return cls(**json.loads(file.read_text(encoding="utf8")))

    def write(self) -> Path:
        file = Path(self.folder, "load.json")
        file.write_text(json.dumps(asdict(self)), encoding="utf8")
        return file

    @property
    def trials(self) -> int:
        """Number of trials, the first one of each slot included."""
        return self.slots * (self.rounds + 1)

    def numbers(self, driver: int) -> list[int]:
        """The trials of a driver, the first of its slots before the others."""
        count = self.slots // self.drivers
        later = range(self.slots + driver, self.trials, self.drivers)
        return [*range(driver * count, (driver + 1) * count), *later]

    def started(self, count: int, driver: int = 0) -> None:
        """Records that a driver has seen `count` trials start."""
        if count == self.slots // self.drivers:
            Path(self.folder, f"known-{driver}").touch()

    def begun(self) -> float:
        """Moment at which the first trials ended, in seconds since the epoch."""
        return self._all_up.stat().st_mtime + SETTLE_S

    def is_begun(self, watch: bool) -> bool:
        """Returns whether all slots are up; a trial that is told to `watch` finds out and marks it for the others."""
        if watch and not self._all_up.exists() and self._known() and self._up() == self.slots:
            self._all_up.touch()
        return self._all_up.exists()

    def _known(self) -> bool:
        return len(list(Path(self.folder).glob("known-*"))) == self.drivers

    def _up(self) -> int:
        return len(list(Path(self.folder).glob("up-*")))

    def ended(self) -> float:
        """Moment at which the last trial was over."""
        ends = [path.stat().st_mtime for path in Path(self.folder).glob("end-*")]
        assert len(ends) == self.trials, f"{len(ends)} of {self.trials} trials ended"
        return max(ends)

    def share(self) -> float:
        """Returns the ideal makespan, in which no slot ever waits, divided by the measured one."""
        return self.rounds * self.seconds / (self.ended() - self.begun())

    @property
    def _all_up(self) -> Path:
        return Path(self.folder, "all-up")


class Nap:
    """Sleep of one trial, which stands in the place of its training."""

    def __init__(self, load: Load, number: int) -> None:
        self.load, self.number = load, number
        self.until = time.monotonic() + load.seconds if number >= load.slots else None
        if self.until is None:
            Path(load.folder, f"up-{number}").touch()

    def over(self, timeout_s: float = float("inf")) -> bool:
        """Wait for the end, `timeout_s` at most; whether it has come."""
        limit = time.monotonic() + timeout_s
        while (left := self._left()) > 0 and time.monotonic() < limit:
            time.sleep(max(0.0, min(left, limit - time.monotonic())))
        if left <= 0:
            Path(self.load.folder, f"end-{self.number}").touch()
        return left <= 0

    def _left(self) -> float:
        if self.until is not None:
            return self.until - time.monotonic()
        return self.load.begun() - time.time() if self.load.is_begun(self.number == 0) else POLL_S


class SleepingGroup(Group):
    """Worker group without ranks: the slot's own process sleeps, and reports its memory and imports."""

    def __init__(self, recycle_after: int, name: str = "group") -> None:
        self.number = 0
        self.total = 0
        self.nap: Nap | None = None

    def submit(self, settings: GroupSettings, job: Job) -> int:
        assert job.paths.train_file is not None
        job.folder.mkdir(parents=True, exist_ok=True)
        self.number, self.total = self.number + 1, job.total_examples
        self.nap = Nap(Load.read(job.paths.train_file), job.run.train.seed)
        return self.number

    def events(self, timeout_s: float) -> list[Event]:
        if self.nap is None or not self.nap.over(timeout_s):
            return []
        self.nap = None
        point = Point(**ended(self.total), step=1, metrics=process_facts())
        return [PointEvent(0, point), DoneEvent(Outcome(stopped=False, **ended(self.total), points=()))]

    def stop(self, number: int) -> None:
        self.nap = None

    def abort(self) -> None:
        self.nap = None

    def close(self) -> None:
        self.nap = None


def train(run: Any, paths: Any, folder: Path, report: Any, **how: Any) -> Outcome:
    """`cse_train.training.loop.train` of a trial, in a rank of a real worker group."""
    Nap(Load.read(paths.train_file), run.train.seed).over()
    end = ended(run.train.examples)
    report(Point(**end, step=1, metrics=process_facts()))
    return Outcome(**end, stopped=False, points=())


def tune_function(config: dict[str, Any]) -> dict[str, float]:
    """Sleeps as a trial of Ray Tune's function API."""
    Nap(Load.read(Path(config["load"])), config["number"]).over()
    return {"best": 0.0}


def ended(examples: int) -> dict[str, Any]:
    """Returns the fields of the outcome of a trial that trains nothing."""
    return {"examples": examples, "best": 0.0, "best_examples": examples, "seconds": 0.0}


def process_facts() -> dict[str, float]:
    """Returns this process's number, its unshared memory in MB, and 1.0 if it ever imported torch."""
    sizes = Path("/proc/self/smaps_rollup").read_text()
    (private_kb,) = re.findall(r"^Private_Dirty: +(\d+) kB$", sizes, re.MULTILINE)
    return {"pid": os.getpid(), "own_mb": int(private_kb) / 1024, "torch": float("torch" in sys.modules)}
