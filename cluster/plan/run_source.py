"""Sources of runs for the dispatcher: a fixed list (a grid), or a search that proposes cells."""

import itertools
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from analysis.run_state import RunState
from cluster.plan.plan import PlannedRun

Points = Mapping[str, list[tuple[int, float]]]
"""Signature of a run -> [(examples, best dev score up to there)], by examples."""


class RunSource:
    """Hands out one run at a time and observes how each ended; a source without a model ignores the observations."""

    keeps_stopped = False
    """True if a run that a scheduler stopped early counts as finished; otherwise it is trained on."""
    proposes = False
    """True if the source proposes runs as it goes, instead of knowing them beforehand."""

    def ask(self) -> PlannedRun | None:
        """Returns the next run to start; None when there is none now."""
        raise NotImplementedError

    def ahead(self, count: int) -> Sequence[PlannedRun]:
        """Returns at most `count` of the runs that `ask` will return next, as far as they are known."""
        return ()

    def reorder(self, coming: Sequence[PlannedRun]) -> None:
        """Makes `ask` return the runs of `coming`, which are a reordering of those from `ahead`, in this order."""

    def exhausted(self) -> bool:
        """Tells whether the source will never return a run again."""
        raise NotImplementedError

    def observe(self, planned: PlannedRun, state: RunState, value: float | None, examples: int | None) -> None:
        """Notes how a run ended, once its scores are in the ledger; `value` is its best dev score."""

    def skip(self, planned: PlannedRun) -> None:
        """Notes that a run which `ask` returned will not be done."""

    def refresh(self) -> None:
        """Reads what other drivers recorded, where the source learns from that; called before each `ask`."""

    def points(self) -> Points:
        """Returns the points of runs that have new ones, of any driver, by which a scheduler (ASHA) compares runs."""
        return {}


class ListSource(RunSource):
    """Hands out each distinct run of a list once, in order."""

    def __init__(self, planned: Iterable[PlannedRun]) -> None:
        self._left = deque({run.signature: run for run in planned}.values())

    def ask(self) -> PlannedRun | None:
        return self._left.popleft() if self._left else None

    def ahead(self, count: int) -> Sequence[PlannedRun]:
        return list(itertools.islice(self._left, count))

    def reorder(self, coming: Sequence[PlannedRun]) -> None:
        for _ in coming:
            self._left.popleft()
        self._left.extendleft(reversed(coming))

    def exhausted(self) -> bool:
        return not self._left
