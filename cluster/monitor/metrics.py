"""Counts the runs of a sweep from its events alone, and computes the metrics that it exports to Prometheus.

Every label has few values: sweeps of one driver, five states, and one series per run that runs now.
"""

import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from analysis.run_state import RunState
from cluster.sweep.events import RUN_ENDS, EventKind, SweepEvent

WAITING_STATE = "waiting"
"""Value of the label `state` for runs that have neither begun nor ended."""


@dataclass(frozen=True)
class PrometheusMetric:
    """A Prometheus metric of a sweep; `exported` is its full name in Prometheus."""

    name: str
    kind: Literal["gauge", "counter"]
    labels: tuple[str, ...]
    help: str

    @property
    def exported(self) -> str:
        return f"ray_{self.name}" + ("_total" if self.kind == "counter" else "")


METRICS = (
    PrometheusMetric("cse_runs", "gauge", ("sweep", "state"), "Runs of the sweep by state"),
    PrometheusMetric("cse_best", "gauge", ("sweep",), "Highest dev score so far, Spearman x 100"),
    PrometheusMetric("cse_dev_score", "gauge", ("sweep", "run"), "Best dev score so far of each run that runs now"),
    PrometheusMetric("cse_run_share", "gauge", ("sweep", "run"), "Trained part of each run that runs now, 0 to 1"),
    PrometheusMetric("cse_examples_per_second", "gauge", ("sweep",), "Training examples a second over the last minute"),
    PrometheusMetric("cse_seconds_left", "gauge", ("sweep",), "Seconds to the end at the pace so far"),
    PrometheusMetric("cse_examples", "counter", ("sweep",), "Training examples seen by this driver's runs"),
    PrometheusMetric("cse_reused", "counter", ("sweep",), "Runs found in the ledger and not trained"),
    PrometheusMetric("cse_retries", "counter", ("sweep",), "Times that a run went on after its workers died"),
    PrometheusMetric("cse_failures", "counter", ("sweep",), "Runs that ended without a result"),
    PrometheusMetric("cse_rests", "counter", ("sweep",), "Times that a slot was set aside after it lost several runs"),
    PrometheusMetric("cse_budget_share", "gauge", ("sweep", "budget"), "Spent part of each limit of --budget, 0 to 1"),
    PrometheusMetric("cse_storage_share", "gauge", ("sweep",), "Full part of the storage's disk, 0 to 1"),
)

RAY_GPU_MEMORY = ("ray_node_gram_used", "ray_node_gram_available")
"""Names of Ray's own metrics of GPU memory in MB, by node and GPU."""


@dataclass
class Tally:
    """Counts of a sweep's runs by state, kept up to date from the sweep's events alone."""

    total: int
    begun: float | None = None
    """Clock reading in seconds at the first start of a run; None before it."""
    state: dict[str, EventKind] = field(default_factory=dict)
    """Signature -> newest event that tells the run's state; changed by `_stands` alone."""
    running: dict[str, None] = field(default_factory=dict)
    """Signatures of running runs, in the order in which they started."""
    trained: dict[str, int] = field(default_factory=dict)
    total_examples: dict[str, int] = field(default_factory=dict)
    """Signature -> examples of the whole run, for the trained fraction."""
    best: float | None = None
    best_reported: float | None = None
    """Best score so far with the sign that its run reports, whereas `best` is always higher for better runs."""
    _counts: Counter[EventKind] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._counts.update(self.state.values())

    def add(self, event: SweepEvent, now: float) -> None:
        """Takes one event into account; `now` is any steady clock in seconds. Scores of suites are not dev scores."""
        if event.kind == EventKind.SCORED:
            return
        if event.kind == EventKind.STARTED and self.begun is None:
            self.begun = now
        if event.kind in (EventKind.STARTED, EventKind.REUSED, *RUN_ENDS):
            self._stands(event.signature, event.kind)
        if event.kind in (EventKind.REQUEUED, EventKind.RESTING):
            self._stands(event.signature, None)
        if event.total_examples:
            self.total_examples[event.signature] = event.total_examples
        if event.examples:
            self.trained[event.signature] = event.examples
        is_news = event.best is not None and (self.best is None or event.best > self.best)
        if is_news and event.kind != EventKind.FAILED:
            self.best, self.best_reported = event.best, event.best_reported

    def count(self, *kinds: EventKind) -> int:
        return sum(self._counts[kind] for kind in kinds)

    def work_done(self) -> float:
        """Returns the number of runs trained by this call, counting running ones by their trained fraction."""
        return self.count(*RUN_ENDS) + sum(map(self.share, self.running))

    def _stands(self, signature: str, kind: EventKind | None) -> None:
        before = self.state.pop(signature, None)
        if before is not None:
            self._counts[before] -= 1
        self.running.pop(signature, None)
        if kind is not None:
            self.state[signature] = kind
            self._counts[kind] += 1
        if kind == EventKind.STARTED:
            self.running[signature] = None

    def share(self, signature: str) -> float:
        total_examples = self.total_examples.get(signature)
        return min(1.0, self.trained.get(signature, 0) / total_examples) if total_examples else 0.0

    def seconds_left(self, now: float) -> float | None:
        """Returns the seconds to the end at the pace so far; None before any training is done."""
        work = self.work_done()
        if self.begun is None or work <= 0:
            return None
        return (now - self.begun) * (self.total - self.count(EventKind.REUSED) - work) / work

    def summary(self, now: float) -> str:
        """Returns one line with counts of done, running, stopped and failed runs, the best score and the time left."""
        reused = self.count(EventKind.REUSED)
        parts = [f"{self.count(EventKind.DONE) + reused}/{self.total} done" + (f" ({reused} reused)" if reused else "")]
        kinds = EventKind.STARTED, EventKind.STOPPED, EventKind.FAILED
        words = RunState.RUNNING, RunState.STOPPED, RunState.FAILED
        counts = zip(map(self.count, kinds), words, strict=True)
        parts += [f"{number} {word}" for number, word in counts if number]
        if self.best_reported is not None:
            parts.append(f"best run {self.best_reported:.2f}")
        if left := self.seconds_left(now):
            parts.append(f"about {clock(left)} left")
        return ", ".join(parts)


def clock(seconds: float) -> str:
    """Formats seconds as `8 s`, `2 min 05 s` or `3 h 10 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


PACE_WINDOW_SECONDS = 60.0
COUNTERS: Mapping[str, str] = {
    EventKind.REUSED: "cse_reused",
    EventKind.RETRIED: "cse_retries",
    EventKind.FAILED: "cse_failures",
    EventKind.RESTING: "cse_rests",
}
MAX_LABEL_LENGTH = 80
"""Maximum number of characters of a run's label; Prometheus keeps each distinct label."""

Sample = tuple[str, dict[str, str], float]
"""(metric name, labels, value); a counter's value is its total so far."""


@dataclass
class Figures(Tally):
    """Counts of one sweep, with the further values of its metrics."""

    totals: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("cse_examples", *COUNTERS.values()), 0.0))
    scores: dict[str, float] = field(default_factory=dict)
    """Signature of a running run -> its best dev score so far."""
    seen: deque[tuple[float, float]] = field(default_factory=deque)
    """Pairs (clock in seconds, training examples so far) of the last PACE_WINDOW_SECONDS."""

    def add(self, event: SweepEvent, now: float) -> None:
        if event.kind in (EventKind.POINT, *RUN_ENDS):
            news = event.examples - self.trained.get(event.signature, 0)
            self.totals["cse_examples"] += max(0, news)
        counter = COUNTERS.get(event.kind)
        if counter:
            self.totals[counter] += 1
        super().add(event, now)
        if event.kind == EventKind.POINT and event.best is not None:
            self.scores[event.signature] = event.best
        if event.kind in RUN_ENDS:
            self.scores.pop(event.signature, None)

    def pace(self, now: float) -> float:
        self.seen.append((now, self.totals["cse_examples"]))
        while len(self.seen) > 2 and self.seen[1][0] <= now - PACE_WINDOW_SECONDS:
            self.seen.popleft()
        (since, before), (until, after) = self.seen[0], self.seen[-1]
        return (after - before) / (until - since) if until > since else 0.0

    def states(self) -> dict[str, int]:
        counts: dict[str, int] = {
            RunState.RUNNING: self.count(EventKind.STARTED),
            RunState.DONE: self.count(EventKind.DONE, EventKind.REUSED),
            RunState.STOPPED: self.count(EventKind.STOPPED),
            RunState.FAILED: self.count(EventKind.FAILED),
        }
        return {WAITING_STATE: max(0, self.total - sum(counts.values())), **counts}


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
        self.figures = {name: Figures(total) for name, total in totals.items()}
        for signature in reused:
            self.add(SweepEvent(kind=EventKind.REUSED, signature=signature), 0.0)

    def add(self, event: SweepEvent, now: float) -> None:
        """Takes one event into account; events of unknown runs are ignored."""
        with self._lock:
            figures = self.figures.get(self._sweeps.get(event.signature, ""))
            state = figures is not None and figures.state.get(event.signature)
            if figures is not None and not (event.kind == state == EventKind.REUSED):
                figures.add(event, now)

    def samples(self, now: float) -> list[Sample]:
        with self._lock:
            return [sample for name, figures in self.figures.items() for sample in self._measure(name, figures, now)]

    def _measure(self, sweep: str, figures: Figures, now: float) -> Iterator[Sample]:
        labels = {"sweep": sweep}
        for state, count in figures.states().items():
            yield "cse_runs", {**labels, "state": str(state)}, float(count)
        if figures.best is not None:
            yield "cse_best", labels, figures.best
        for signature, score in figures.scores.items():
            run = {**labels, "run": self._labels.get(signature, signature)[:MAX_LABEL_LENGTH]}
            yield "cse_dev_score", run, score
            yield "cse_run_share", run, figures.share(signature)
        yield "cse_examples_per_second", labels, figures.pace(now)
        left = figures.seconds_left(now)
        if left is not None:
            yield "cse_seconds_left", labels, left
        for name, total in figures.totals.items():
            yield name, labels, total
