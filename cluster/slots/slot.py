"""The Tune trainable: a slot that outlives its trials (`reuse_actors`), as does the worker group that it owns."""

import contextlib
import pkgutil
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from ray import tune

from analysis.run_folder import RunFolder
from analysis.run_state import RunState
from cluster.slots.group_api import (
    IS_LAST,
    ErrorEvent,
    Event,
    Group,
    Job,
    PointEvent,
    ReturnReason,
    SlotResult,
    SlotSettings,
    TrialConfig,
)
from cluster.slots.health import Losses, Pace, Quarantine
from cse_train.results import Outcome, Point, Scalar, Score

SLOT_HEARTBEAT_SECONDS = 1.0
"""Seconds without events after which a slot checks whether its group is still alive."""
ECHO_SECONDS = 3.0
"""Seconds to wait for the real error after one that only says that a rank is gone."""
SLOT_IDLE_SECONDS = 20.0
"""Seconds without a job after which a slot frees its group's CPUs and GPUs for another slot that may wait for them."""
REST_SECONDS = 2.0
"""Seconds between two results of a slot in quarantine; the end of a sweep waits for that long."""
IDLE_JOB_SECONDS = 360.0
"""Seconds without a call, 300 of which the database may take, after which Tune has forgotten the slot's job."""


class Slot(tune.Trainable):  # type: ignore[misc]
    """Tune trainable in which one trial is one job; `step` returns at each dev point, at the end, and after `quiet_s`.

    A user's error is a result (`state: failed`), never an exception: Tune would run it again. Lost workers are replaced
    here and the job goes on from its checkpoint; a job that is lost again and again is for another slot (`state:
    lost`), and a slot that loses several rests. A job that finds no memory on a shared GPU is returned for a whole one.
    With `isolation: trial` Tune gives each trial a slot of its own. A slot that Tune keeps but does not call gives up
    its group.
    """

    def setup(self, config: TrialConfig) -> None:
        settings = config["slot"]
        self.name = settings.name
        self.group: Group = pkgutil.resolve_name(settings.group.options.group)(
            settings.group.options.recycle_after, self.name
        )
        self.idle_timer = IdleTimer(self._sleep)
        self.quarantine, self.quarantined = Quarantine(), False
        self.undecided: int | None = None
        """Index of the report on which Tune is to decide."""
        self.running = self.asleep = self.holds_ranks = self.served = False
        with self._hold_timer():
            self._begin(config["job"], settings)

    def __repr__(self) -> str:
        return self.name

    def reset_config(self, new_config: TrialConfig) -> bool:
        with self._hold_timer():
            if self.running:
                self.group.stop(self.number)
                self.running = False
            self._begin(new_config["job"], new_config["slot"])
        return True

    def step(self) -> SlotResult:
        with self._hold_timer():
            if self.quarantined:
                return self._rest()
            if self.asleep:
                self._submit()
            if self.undecided is not None:  # Tune has just seen this report
                self._proceed(self.undecided)
                self.undecided = None
            until = time.monotonic() + self.settings.quiet_s
            while True:
                if not self.events:
                    self.events.extend(self.group.events(SLOT_HEARTBEAT_SECONDS))
                result = self._handle_event(self.events.popleft()) if self.events else self._handle_silence(until)
                if result is not None:
                    return result

    def _hold_timer(self) -> AbstractContextManager[None]:
        return self.idle_timer.call(lambda: IDLE_JOB_SECONDS if self.running else SLOT_IDLE_SECONDS)

    def _sleep(self) -> None:
        """Closes the group; a running job stops at its next report, and resumes at Tune's next call."""
        if self.running:
            self.group.stop(self.number)
        self.group.close()
        self.asleep = self.running

    def cleanup(self) -> None:
        self.idle_timer.end()
        if self.running:
            self.group.abort()
        self.group.close()

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Does nothing: a run's checkpoints lie in its folder."""

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Does nothing: a run's checkpoints lie in its folder."""

    # The current job

    def _begin(self, job: Job, settings: SlotSettings) -> None:
        self.job, self.settings = job, settings
        self.losses, self.pace = Losses(settings.group.options.max_retries), Pace(slowest_s=settings.slowest_s)
        self.examples, self.judged, self.best = 0, 0, float("-inf")
        self.points: list[Point] = []
        self.scores: list[Score] = []
        self.events: deque[Event] = deque()
        self.echo: tuple[float, str] | None = None
        self.quarantined = self.quarantine.left_s > 0
        if not self.quarantined:
            self._submit()

    def _rest(self) -> SlotResult:
        """Returns the job to other slots, and keeps the failing machine from them while in quarantine."""
        time.sleep(max(0.0, min(REST_SECONDS, self.quarantine.left_s)))
        reason = f"{self.name} {self.quarantine.describe()}"
        return self._result(ReturnReason.RESTING, reason=reason, last=self.quarantine.left_s <= 0)

    def _submit(self) -> None:
        # The ranks of a lost job were left alive to keep the failing machine from other slots (see `_handle_loss`).
        if self.holds_ranks:
            self.group.abort()
            self.holds_ranks = False
        self.pace.pause()
        self.events.clear()
        self.undecided = self.echo = None
        # The job goes on from this attempt's checkpoint, else from that of the newest earlier attempt that has one.
        folders = (self.job.folder, *self.job.previous)
        checkpoint = next((folder for folder in folders if RunFolder(folder).has_state), None)
        self.number = self.group.submit(self.settings.group, replace(self.job, resume_from=checkpoint))
        self.running, self.asleep = True, False

    def _proceed(self, index: int) -> None:
        """Lets a gated job's ranks go on; others do not wait, and a call would cost a round trip."""
        if self.job.gated:
            self.group.proceed(self.number, index)

    # Events of the ranks

    def _handle_event(self, event: Event) -> SlotResult | None:
        if isinstance(event, PointEvent):
            return self._handle_point(event.index, event.point)
        if isinstance(event, Score):
            self.scores.append(event)
            return None
        if isinstance(event, ErrorEvent):
            return self._handle_error(event)
        self.running, outcome = False, event.outcome
        self.served = True
        self.quarantine.went_well()
        if outcome is None:
            return self._result(RunState.DONE, last=True)
        self.best, self.examples = outcome.best, outcome.examples
        return self._result(RunState.STOPPED if outcome.stopped else RunState.DONE, last=True, outcome=outcome)

    def _handle_point(self, index: int, point: Point) -> SlotResult | None:
        """Returns a result for a new dev point but the last, which would count as a rung while suites are scored."""
        news = point.examples > self.examples
        if news:
            self.pace.point()
            self.points.append(point)
            self.examples, self.best = point.examples, point.best
        if not news or point.examples >= self.job.total_examples:
            self._proceed(index)
            return None
        self.undecided, self.judged = index, self.examples
        return self._result(RunState.RUNNING)

    def _handle_error(self, event: ErrorEvent) -> SlotResult | None:
        if event.cause == "echo":
            self.echo = self.echo or (time.monotonic(), event.reason)
            return None
        if event.card_full and 0 < self.job.gpus < 1:
            self.running = False
            self.group.abort()
            return self._result(ReturnReason.CROWDED, last=True, reason=event.reason.partition(";")[0])
        if event.cause == "machine" or (event.cause == "setup" and (self.served or self.settings.proven)):
            return self._handle_loss(event.reason, "machine")
        self.running = False
        self.group.abort()
        if event.cause == "setup":
            return self._result(ReturnReason.REFUSED, last=True, reason=event.reason)
        return self._result(RunState.FAILED, last=True, reason=event.reason, lacking=event.inputs)

    def _handle_silence(self, until: float) -> SlotResult | None:
        loss = self.group.lost()
        if self.echo and (loss or time.monotonic() - self.echo[0] > ECHO_SECONDS):
            loss = loss or self.echo[1]
        trains = self.job.kind == "train" and self.examples < self.job.total_examples
        if trains and not self.pace.is_begun and self.group.has_ranks():
            self.pace.begin()
        loss = loss or (self.pace.stuck() if trains else "")
        if loss:
            return self._handle_loss(loss, "nodes" if self.group.node_lost() else "workers")
        waits_for = self.group.waits_for() or (self.pace.doubt() if trains else "")
        return self._result(RunState.RUNNING, waits_for=waits_for) if time.monotonic() >= until else None

    def _handle_loss(self, reason: str, cause: str) -> SlotResult:
        """Continues the job from its checkpoint in a new group, or gives it up where it was lost too often."""
        self.running = False
        if self.losses.add(cause, self.examples):
            if cause != "nodes":
                self.quarantine.lost(self.job.signature)
            self.holds_ranks = self.quarantine.left_s > 0 and cause == "machine"
            if not self.holds_ranks:
                self.group.abort()
            return self._result(RunState.LOST, last=True, reason=f"{self.losses}: {reason}")
        self.group.abort()
        self._submit()
        return self._result(RunState.RUNNING, retried=f"node lost: {reason}" if cause == "nodes" else reason)

    # Results

    def _result(
        self,
        state: RunState | ReturnReason,
        *,
        last: bool = False,
        reason: str = "",
        outcome: Outcome | None = None,
        lacking: Mapping[str, Scalar] | None = None,
        retried: str = "",
        waits_for: str = "",
    ) -> SlotResult:
        points, self.points = self.points, []
        return {
            "examples": self.examples if last else self.judged,
            "best": self.best,
            "state": state,
            "points": points,
            "scores": self.scores if last else [],
            "reason": reason,
            "outcome": outcome,
            "lacking": lacking or {},
            "retried": retried,
            "waits_for": waits_for,
            IS_LAST: last,
        }


class IdleTimer:
    """Calls `on_idle` when no call came for some seconds after the last one; never during a call."""

    def __init__(self, on_idle: Callable[[], None]) -> None:
        self._on_idle = on_idle
        self._turns = threading.RLock()
        self._calls = 0
        self._timer = threading.Timer(0, self._expire)

    @contextlib.contextmanager
    def call(self, limit_s: Callable[[], float]) -> Iterator[None]:
        """Context manager around one call, after which `limit_s()` seconds may pass before the next."""
        self._timer.cancel()
        with self._turns:
            self._calls += 1
            try:
                yield
            finally:
                self._timer = threading.Timer(limit_s(), self._expire, args=(self._calls,))
                self._timer.daemon = True
                self._timer.start()

    def end(self) -> None:
        with self._turns:
            self._calls += 1
            self._timer.cancel()

    def _expire(self, calls: int) -> None:
        with self._turns:
            # A timer that waited for the lock is stale if a call came meanwhile.
            if calls == self._calls:
                self._on_idle()
