"""A `cluster.slots.group_api.Group` without ranks: slot 2's card is sick until it has failed nine times."""

import time
from pathlib import Path

from cluster.slots import health
from cluster.slots.fault import fault_of
from cluster.slots.group_api import DoneEvent, ErrorEvent, Event, Group, GroupSettings, Job, PointEvent
from tests.run_values import outcome_of, point_of

REST_S = 1.0
FAILS = 9
SLOTS = 4
SECONDS = 0.2
HELD = 20
"""Runs after which the other slots wait until the second has done one: a fast machine would leave it none."""


class SickGroup(Group):
    def __init__(self, recycle_after: int, name: str) -> None:
        self.slot = int(name.split()[1])
        self.job: Job | None = None
        self.folder = Path()
        health.FIRST_QUARANTINE_SECONDS = REST_S

    def submit(self, settings: GroupSettings, job: Job) -> int:
        assert job.paths.train_file is not None
        job.folder.mkdir(parents=True, exist_ok=True)
        self.job, self.folder = job, job.paths.train_file.parent
        (self.folder / f"up-{self.slot}").touch()
        return 1

    def events(self, timeout_s: float) -> list[Event]:
        if self.job is None:
            time.sleep(timeout_s)
            return []
        if self._count("up-*") < SLOTS:  # a slot that starts slowly gets its runs too
            time.sleep(min(timeout_s, 0.2))
            return []
        if self.slot != 2 and self._count("done-*") >= HELD and not self._count("done-2-*"):
            time.sleep(min(timeout_s, 0.2))
            return []
        job, self.job = self.job, None
        if self.slot == 2 and self._fails():
            error = RuntimeError("CUDA error: uncorrectable ECC error encountered")
            return [ErrorEvent(cause=fault_of(error), reason=f"RuntimeError: {error}")]
        time.sleep(SECONDS)
        (self.folder / f"done-{self.slot}-{job.signature}").touch()
        total = job.total_examples
        return [
            PointEvent(0, point_of(total, seconds=SECONDS, metrics={"slot": self.slot})),
            DoneEvent(outcome_of(examples=total, best_examples=total, seconds=SECONDS)),
        ]

    def _fails(self) -> bool:
        failed = self._count("fail-*")
        if failed < FAILS:
            (self.folder / f"fail-{failed}").touch()
        return failed < FAILS

    def _count(self, names: str) -> int:
        return len(list(self.folder.glob(names)))
