"""Sends a sweep's runs to trackers, each in a thread of its own, so that none can delay or end the sweep.

An event only marks a run as changed. What is sent is read from the ledger later: a tracker that was unreachable, or is
slower than the sweep, catches up, and only the signatures of changed runs are queued.
"""

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from analysis.ledger import Ledger, mask_password
from analysis.run_state import RunState, standing
from cluster.sweep.events import RUN_ENDS, EventKind, SweepEvent
from cse.trackers.tools import TrackedRun, Tracker
from cse_train.reading import first_line

NEWS = (EventKind.POINT, EventKind.RETRIED, *RUN_ENDS)
TRACKER_PERIOD_SECONDS = 1.0
"""Least seconds between two readings of the ledger."""
TRACKER_RETRY_SECONDS = 30.0
"""Seconds after which a failed tracker is tried again."""
TRACKER_CLOSE_SECONDS = 10.0
"""Maximum seconds that the end of a sweep waits for trackers."""
log = logging.getLogger(__name__)


@dataclass
class SentState:
    """State of one run at a tracker: what the sweep reported of it, and what the tracker has received."""

    examples: int = -1
    """Training examples of the last point that was sent."""
    over: bool = False
    """True if the sweep reported the run's end; its scores are then in the ledger too."""
    ended: bool = False
    """True if the tracker has received the run's end."""
    retries: int = 0
    reason: str = ""
    """Why the run was retried last."""


class Tracking(AbstractContextManager["Tracking"]):
    """Context manager that passes one sweep's events to trackers: runs that the sweep starts, not reused ones.

    `sweeps` and `labels`: signature -> sweep, and name; both may grow meanwhile.
    """

    def __init__(
        self, ledger: str, sweeps: Mapping[str, str], labels: Mapping[str, str], trackers: Mapping[str, Tracker]
    ) -> None:
        self._followers = [TrackerFollower(name, tracker, ledger, sweeps, labels) for name, tracker in trackers.items()]

    def __enter__(self) -> "Tracking":
        for follower in self._followers:
            follower.start()
        return self

    def __exit__(self, *_: object) -> None:
        deadline = time.monotonic() + TRACKER_CLOSE_SECONDS
        for follower in self._followers:
            follower.end()
        for follower in self._followers:
            follower.wait(deadline)

    def __call__(self, event: SweepEvent) -> None:
        for follower in self._followers:
            follower.note(event)


@dataclass
class TrackerFollower:
    """Thread of one tracker, with the state of what it has received of the sweep's runs."""

    name: str
    tracker: Tracker
    ledger: str
    sweeps: Mapping[str, str]
    labels: Mapping[str, str]
    _changed: dict[str, None] = field(default_factory=dict)
    """Signatures of changed runs, each once, in order."""
    _sent: dict[str, SentState] = field(default_factory=dict)
    """Signature -> what the tracker has received, for every run that this sweep started."""
    _news: threading.Condition = field(default_factory=threading.Condition)
    _closing: bool = False
    _warned: bool = False
    _busy_since: float | None = None
    """Start, on the monotonic clock, of a call from which the tracker has not returned; None between calls."""

    def start(self) -> None:
        self._thread = threading.Thread(target=self._work, name=f"track {self.name}", daemon=True)
        self._thread.start()

    def note(self, event: SweepEvent) -> None:
        """Marks the event's run as changed, and returns at once."""
        with self._news:
            if event.kind != EventKind.STARTED and (event.kind not in NEWS or event.signature not in self._sent):
                return
            sent = self._sent.setdefault(event.signature, SentState())
            sent.over, sent.ended = event.kind in RUN_ENDS, False
            if event.kind == EventKind.RETRIED:
                sent.retries += 1
                sent.reason = event.reason
            self._changed[event.signature] = None
            self._news.notify()

    def end(self) -> None:
        """Ends the thread after it has sent the present state of every run; no event follows."""
        with self._news:
            self._closing = True
            self._changed |= dict.fromkeys(name for name, sent in self._sent.items() if not sent.ended)
            self._news.notify()

    def wait(self, deadline: float) -> None:
        """Waits for the thread until `deadline` on the monotonic clock; not at all if it is stuck in one call."""
        stuck = self._busy_since is not None and time.monotonic() - self._busy_since > TRACKER_CLOSE_SECONDS
        self._thread.join(0 if stuck else max(0.0, deadline - time.monotonic()))
        if self._thread.is_alive():
            self._say("it did not take all runs in time")

    def _work(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._changed or self._closing)
                # Read before the work: an end that comes during it gets a round of its own.
                changed, self._changed, closing = list(self._changed), {}, self._closing
            names = [name for name in changed if not self._sent[name].ended]
            runs = self._try(self._runs, names)
            unsent = names if runs is None else [run.signature for run in runs if not self._try(self._send, run)]
            if closing:
                self._try(self.tracker.close)
                return
            with self._news:
                self._changed = self._changed | dict.fromkeys(unsent)
                self._news.wait_for(lambda: self._closing, TRACKER_RETRY_SECONDS if unsent else TRACKER_PERIOD_SECONDS)

    def _runs(self, signatures: Sequence[str]) -> list[TrackedRun]:
        with contextlib.closing(Ledger.open(self.ledger, create=False)) as ledger:
            rows = ledger.runs(signatures=signatures)
            curves, scores = ledger.curves(signatures), ledger.scores(signatures)
        suites: dict[str, dict[str, float]] = {name: {} for name in signatures}
        for score in scores:
            suites[score.signature] |= _finite({score.suite: score.value})
        runs = []
        for row, sent in ((row, self._sent[row.signature]) for row in rows):
            new_points = [point for point in curves.get(row.signature, []) if point.examples > sent.examples]
            runs.append(
                TrackedRun(
                    signature=row.signature,
                    sweep=self.sweeps.get(row.signature, "runs"),
                    name=self.labels.get(row.signature, row.signature),
                    settings={"method": row.method, **row.config},
                    points=[(point.examples, _finite(point.metrics)) for point in new_points],
                    whole=sent.examples < 0,
                    scores=suites[row.signature],
                    best=row.best,
                    state=standing(row.state, row.live) if sent.over or self._closing else RunState.RUNNING,
                    reason=row.reason or sent.reason,
                    retries=sent.retries,
                )
            )
        return runs

    def _send(self, run: TrackedRun) -> bool:
        self.tracker.send(run)
        sent = self._sent[run.signature]
        sent.ended = run.ended
        sent.examples = max([sent.examples, *(examples for examples, _ in run.points)])
        return True

    def _try(self, action: Callable[..., Any], *arguments: object) -> Any:
        """Calls a function and returns its result; None after an error, of which only the first is logged."""
        self._busy_since = time.monotonic()
        try:
            return action(*arguments)
        except Exception as error:  # of any tracker's library, or of the ledger
            self._say(first_line(error))
            return None
        finally:
            self._busy_since = None

    def _say(self, reason: str) -> None:
        if not self._warned:
            line = f"tracker behind: track={self.name}; {mask_password(reason)}"
            log.warning("%s; the sweep goes on, and the ledger has everything", line)
        self._warned = True


def _finite(values: Mapping[str, float | None]) -> dict[str, float]:
    """Returns the finite numbers among the values."""
    return {name: float(v) for name, v in values.items() if isinstance(v, int | float) and math.isfinite(v)}
