"""Counts the runs of a sweep for its progress display, and writes durations as text."""

from collections import Counter
from dataclasses import dataclass, field

from analysis.run_state import RunState
from cluster.sweep.events import RUN_ENDS, EventKind, SweepEvent


@dataclass
class Tally:
    """Counts of a sweep's runs by state, kept up to date from the sweep's events alone."""

    total: int
    """Number of all runs of the sweep."""
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
        """Returns the trained fraction of a run; 0 where its length is not known."""
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
