"""A sweep's runs in trackers, each in a thread of its own: none can hold up or end the sweep.

An event only says that a run has news. What is sent is what the ledger has then: a tracker that was away, or is slower
than the sweep, gets later what it lacks, and nothing waits but the names of runs with news.
"""

import contextlib
import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from analysis.ledger import CurvePoint, Ledger, RunRow, mask_password
from analysis.run_state import RunState, standing
from cluster.sweep.events import RUN_ENDS, EventKind, SweepEvent
from cse.trackers.tools import TrackedRun, Tracker
from cse_train.reading import first_line

NEWS = (EventKind.POINT, EventKind.RETRIED, *RUN_ENDS)
TRACKER_PERIOD_S = 1.0
"""Seconds between two looks at the ledger."""
TRACKER_AGAIN_S = 30.0
"""Seconds after which a tracker that failed is tried again."""
TRACKER_CLOSE_S = 10.0
"""Seconds that the end of a sweep waits for a tracker at most."""
log = logging.getLogger(__name__)


@dataclass
class Sent:
    """What a tracker has of one run."""

    examples: int = -1
    """Of the last point."""
    over: bool = False
    """Whether the sweep said that the run ended: its scores are in the ledger too."""
    ended: bool = False
    """Whether the tracker has its end."""


class Tracking(AbstractContextManager["Tracking"]):
    """Takes the events of one sweep; a context manager. Runs that this sweep starts are tracked, reused ones are not.

    `sweeps` and `labels`: signature -> its sweep, and its name; the mappings may grow meanwhile.
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
        deadline = time.monotonic() + TRACKER_CLOSE_S
        for follower in self._followers:
            follower.end()
        for follower in self._followers:
            follower.wait(deadline)

    def __call__(self, event: SweepEvent) -> None:
        for follower in self._followers:
            follower.note(event)


@dataclass
class TrackerFollower:
    """One tracker, and what it has and lacks of the sweep."""

    name: str
    tracker: Tracker
    ledger: str
    sweeps: Mapping[str, str]
    labels: Mapping[str, str]
    _changed: dict[str, None] = field(default_factory=dict)
    """Runs with news, each once, in order."""
    _sent: dict[str, Sent] = field(default_factory=dict)
    """Every run that this sweep started."""
    _retries: Counter[str] = field(default_factory=Counter)
    _reasons: dict[str, str] = field(default_factory=dict)
    _news: threading.Condition = field(default_factory=threading.Condition)
    _closing: bool = False
    _warned: bool = False
    _busy_since: float | None = None
    """When the call that the tracker has not returned from began."""

    def start(self) -> None:
        self._thread = threading.Thread(target=self._work, name=f"track {self.name}", daemon=True)
        self._thread.start()

    def note(self, event: SweepEvent) -> None:
        """Returns at once."""
        with self._news:
            if event.kind != EventKind.STARTED and (event.kind not in NEWS or event.signature not in self._sent):
                return
            sent = self._sent.setdefault(event.signature, Sent())
            sent.over, sent.ended = event.kind in RUN_ENDS, False
            if event.kind == EventKind.RETRIED:
                self._retries[event.signature] += 1
                self._reasons[event.signature] = event.reason
            self._changed[event.signature] = None
            self._news.notify()

    def end(self) -> None:
        """No event comes any more: send how the runs stand now."""
        with self._news:
            self._closing = True
            self._changed |= dict.fromkeys(name for name, sent in self._sent.items() if not sent.ended)
            self._news.notify()

    def wait(self, deadline: float) -> None:
        """Wait for the tracker until then; not at all for one that has long been in one call."""
        stuck = self._busy_since is not None and time.monotonic() - self._busy_since > TRACKER_CLOSE_S
        self._thread.join(0 if stuck else max(0.0, deadline - time.monotonic()))
        if self._thread.is_alive():
            self._say("it did not take all runs in time")

    def _work(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._changed or self._closing)
                chosen, self._changed, closing = list(self._changed), {}, self._closing
            names = [name for name in chosen if not self._sent[name].ended]
            runs = self._try(self._runs, names)
            behind = names if runs is None else [run.signature for run in runs if not self._try(self._send, run)]
            if closing:
                self._try(self.tracker.close)
                return
            with self._news:
                self._changed = self._changed | dict.fromkeys(behind)
                self._news.wait_for(lambda: self._closing, TRACKER_AGAIN_S if behind else TRACKER_PERIOD_S)

    def _runs(self, signatures: Sequence[str]) -> list[TrackedRun]:
        with contextlib.closing(Ledger.open(self.ledger, create=False)) as ledger:
            rows = ledger.runs(signatures=signatures)
            curves, scores = ledger.curves(signatures), ledger.scores(signatures)
        suites: dict[str, dict[str, float]] = {name: {} for name in signatures}
        for score in scores:
            suites[score.signature] |= _finite({score.suite: score.value})
        return [self._run(row, curves.get(row.signature, []), suites[row.signature]) for row in rows]

    def _run(self, row: RunRow, curve: Sequence[CurvePoint], scores: Mapping[str, float]) -> TrackedRun:
        sent = self._sent[row.signature]
        points = [(point.examples, _finite(point.metrics)) for point in curve]
        return TrackedRun(
            signature=row.signature,
            sweep=self.sweeps.get(row.signature, "runs"),
            name=self.labels.get(row.signature, row.signature),
            settings={"method": row.method, **row.config},
            points=[(examples, metrics) for examples, metrics in points if examples > sent.examples],
            whole=sent.examples < 0,
            scores=scores,
            best=row.best,
            state=standing(row.state, row.live) if sent.over or self._closing else RunState.RUNNING,
            reason=row.reason or self._reasons.get(row.signature, ""),
            retries=self._retries[row.signature],
        )

    def _send(self, run: TrackedRun) -> bool:
        self.tracker.send(run)
        sent = self._sent[run.signature]
        sent.ended = run.ended
        sent.examples = max([sent.examples, *(examples for examples, _ in run.points)])
        return True

    def _try(self, action: Callable[..., Any], *given: object) -> Any:
        """What it returns; None after an error, of which the first is said."""
        self._busy_since = time.monotonic()
        try:
            return action(*given)
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
    """The numbers among the values."""
    return {name: float(v) for name, v in values.items() if isinstance(v, int | float) and math.isfinite(v)}
