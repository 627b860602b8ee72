"""Decides when a slot gives up a job, when a job counts as stuck, and when a slot rests in quarantine."""

import statistics
import time
from collections import Counter
from collections.abc import Callable

Clock = Callable[[], float]

STUCK_FACTOR = 20.0
"""Factor of the median seconds between a job's dev points; a job that is silent for longer is stuck."""
STUCK_SECONDS = 600.0
"""Least silence in seconds of a stuck job: a file system that is slow for minutes costs no run its place."""
SLOWEST_FACTOR = 5.0
"""Factor of the slowest finished run's seconds; a job silent for longer before its second point is stuck."""
DIFFERENT_RUNS = 2
"""Number of different runs that a slot must lose in a row to be quarantined."""
FIRST_QUARANTINE_SECONDS = 300.0
"""Seconds of a first quarantine, doubled for each further one without a good run in between."""
LONGEST_QUARANTINE_SECONDS = 3600.0


class Losses:
    """Counts how often one job was lost, by cause; a new dev point since the last loss restarts the counts."""

    def __init__(self, limit: int) -> None:
        self._limit, self._examples = limit, 0
        self._counts = Counter[str]()

    def add(self, cause: str, examples: int) -> bool:
        """Counts a loss after `examples` examples; returns True where the slot gives the job up."""
        if examples > self._examples:
            self._counts.clear()
        self._examples = examples
        self._counts[cause] += 1
        return self._counts[cause] > self._limit

    def __str__(self) -> str:
        ends = {cause: "machine failed" if cause == "machine" else f"{cause} lost" for cause in self._counts}
        return " and ".join(f"{ends[cause]} {count} times" for cause, count in self._counts.items())


class Pace:
    """Measures the seconds between a job's dev points, to recognise a stuck job."""

    def __init__(self, now: Clock = time.monotonic, slowest_s: float = 0.0) -> None:
        """`slowest_s`: seconds of the slowest finished run of the sweep; 0 where none has finished."""
        self._now, self._slowest_s, self._gaps = now, slowest_s, list[float]()
        self._last: float | None = None
        self._start: float | None = None

    def begin(self) -> None:
        """Notes that the job's ranks serve; repeated calls change nothing."""
        self._start = self._now() if self._start is None else self._start

    @property
    def is_begun(self) -> bool:
        return self._start is not None

    def point(self) -> None:
        if self._last is not None:
            self._gaps.append(self._now() - self._last)
        self._last = self._now()

    def pause(self) -> None:
        """Notes that the job begins again, so that the time to its next point is not measured."""
        self._last = self._start = None

    def stuck(self) -> str:
        """Returns how long a stuck job has made no dev point; empty where there is nothing to compare with."""
        silent, usual = self._silent_s(), statistics.median(self._gaps) if self._gaps else 0.0
        if self._last is not None and self._gaps:
            limit, why = STUCK_FACTOR * usual, f"{usual:.0f} s lay between two before"
        else:
            limit, why = SLOWEST_FACTOR * self._slowest_s, f"the slowest finished run took {self._slowest_s:.0f} s"
        return f"no dev point for {silent:.0f} s, where {why}" if limit and silent > max(STUCK_SECONDS, limit) else ""

    def doubt(self) -> str:
        """Returns a warning that no second dev point comes, where no finished run says how long that takes."""
        if self._gaps or self._slowest_s or self._silent_s() <= STUCK_SECONDS:
            return ""
        silence = f"no dev point for {STUCK_SECONDS / 60:.0f} min"
        return f"{silence}, and no finished run says how long one takes; look at its log"

    def _silent_s(self) -> float:
        since = self._start if self._last is None else self._last
        return 0.0 if since is None else self._now() - since


class Quarantine:
    """Keeps a slot whose last runs were all lost from taking runs for a while, after which it tries one."""

    def __init__(self, now: Clock = time.monotonic) -> None:
        self._now, self._lost_runs = now, list[str]()
        self._rests, self._until = 0, float("-inf")

    @property
    def left_s(self) -> float:
        """Seconds until the slot takes a run again; 0 or less where it takes one now."""
        return self._until - self._now()

    def lost(self, signature: str) -> None:
        if signature not in self._lost_runs:
            self._lost_runs.append(signature)
        if self._rests or len(self._lost_runs) >= DIFFERENT_RUNS:
            self._until = self._now() + min(FIRST_QUARANTINE_SECONDS * 2**self._rests, LONGEST_QUARANTINE_SECONDS)
            self._rests += 1

    def went_well(self) -> None:
        self._lost_runs, self._rests = [], 0

    def describe(self) -> str:
        runs = len(self._lost_runs)
        return f"quarantined after {runs} different runs were lost here; tried again in {self.left_s:.0f} s"
