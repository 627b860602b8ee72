"""Computes the values of a sweep's metrics from its events alone, as plain data without Ray."""

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from analysis.run_state import RunState
from cluster.monitor.metrics import WAITING_STATE
from cluster.monitor.tally import Tally
from cluster.sweep.events import RUN_ENDS, EventKind, SweepEvent

PACE_WINDOW_SECONDS = 60.0
"""Seconds over which examples per second are averaged."""
COUNTERS: Mapping[str, str] = {
    EventKind.REUSED: "cse_reused",
    EventKind.RETRIED: "cse_retries",
    EventKind.FAILED: "cse_failures",
    EventKind.RESTING: "cse_rests",
}
"""Kind of event -> name of the counter of such events."""
MAX_LABEL_LENGTH = 80
"""Maximum number of characters of a run's label; Prometheus keeps each distinct label."""

Sample = tuple[str, dict[str, str], float]
"""(metric name, labels, value); a counter's value is its total so far."""


@dataclass
class Figures:
    """Values of one sweep's metrics."""

    tally: Tally
    totals: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("cse_examples", *COUNTERS.values()), 0.0))
    scores: dict[str, float] = field(default_factory=dict)
    """Signature of a running run -> its best dev score so far."""
    seen: deque[tuple[float, float]] = field(default_factory=deque)
    """Pairs (clock in seconds, training examples so far) of the last PACE_WINDOW_SECONDS."""

    def add(self, event: SweepEvent, now: float) -> None:
        if event.kind in (EventKind.POINT, *RUN_ENDS):
            news = event.examples - self.tally.trained.get(event.signature, 0)
            self.totals["cse_examples"] += max(0, news)
        counter = COUNTERS.get(event.kind)
        if counter:
            self.totals[counter] += 1
        self.tally.add(event, now)
        if event.kind == EventKind.POINT and event.best is not None:
            self.scores[event.signature] = event.best
        if event.kind in RUN_ENDS:
            self.scores.pop(event.signature, None)

    def pace(self, now: float) -> float:
        """Returns the training examples per second over the last PACE_WINDOW_SECONDS."""
        self.seen.append((now, self.totals["cse_examples"]))
        while len(self.seen) > 2 and self.seen[1][0] <= now - PACE_WINDOW_SECONDS:
            self.seen.popleft()
        (since, before), (until, after) = self.seen[0], self.seen[-1]
        return (after - before) / (until - since) if until > since else 0.0

    def states(self) -> dict[str, int]:
        """Returns state -> number of runs, for the metric `cse_runs`."""
        count = self.tally.count
        counts: dict[str, int] = {
            RunState.RUNNING: count(EventKind.STARTED),
            RunState.DONE: count(EventKind.DONE, EventKind.REUSED),
            RunState.STOPPED: count(EventKind.STOPPED),
            RunState.FAILED: count(EventKind.FAILED),
        }
        return {WAITING_STATE: max(0, self.tally.total - sum(counts.values())), **counts}


class Board:
    """Metric values of all sweeps of one driver; safe for use by the driver's and the exporter's thread."""

    def __init__(
        self,
        sweeps: Mapping[str, str],
        totals: Mapping[str, int],
        labels: Mapping[str, str],
        reused: Iterable[str] = (),
    ) -> None:
        self._sweeps, self._labels, self._lock = sweeps, labels, threading.Lock()
        self.figures = {name: Figures(Tally(total)) for name, total in totals.items()}
        for signature in reused:
            self.add(SweepEvent(kind=EventKind.REUSED, signature=signature), 0.0)

    def add(self, event: SweepEvent, now: float) -> None:
        """Takes one event into account; events of unknown runs are ignored."""
        with self._lock:
            figures = self.figures.get(self._sweeps.get(event.signature, ""))
            state = figures is not None and figures.tally.state.get(event.signature)
            if figures is not None and not (event.kind == state == EventKind.REUSED):
                figures.add(event, now)

    def samples(self, now: float) -> list[Sample]:
        """Returns the current samples of every metric."""
        with self._lock:
            return [sample for name, figures in self.figures.items() for sample in self._measure(name, figures, now)]

    def _measure(self, sweep: str, figures: Figures, now: float) -> Iterator[Sample]:
        labels = {"sweep": sweep}
        for state, count in figures.states().items():
            yield "cse_runs", {**labels, "state": str(state)}, float(count)
        if figures.tally.best is not None:
            yield "cse_best", labels, figures.tally.best
        for signature, score in figures.scores.items():
            yield "cse_dev_score", {**labels, "run": self._label(signature)}, score
            yield "cse_run_share", {**labels, "run": self._label(signature)}, figures.tally.share(signature)
        yield "cse_examples_per_second", labels, figures.pace(now)
        left = figures.tally.seconds_left(now)
        if left is not None:
            yield "cse_seconds_left", labels, left
        for name, total in figures.totals.items():
            yield name, labels, total

    def _label(self, signature: str) -> str:
        return self._labels.get(signature, signature)[:MAX_LABEL_LENGTH]
