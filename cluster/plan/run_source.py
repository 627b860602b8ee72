"""Where runs come from: a fixed list (a grid), or a search that proposes cells. Both hand out one run at a time."""

import itertools
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from analysis.run_state import RunState
from cluster.plan.plan import PlannedRun


class RunSource:
    """Hands out runs and observes how each ended; a source without a model does nothing with what it observes."""

    keeps_stopped = False
    """Whether a run that a scheduler stopped counts as finished, or is trained on."""
    proposes = False
    """Whether it proposes runs as it goes, and does not know them beforehand."""

    def ask(self) -> PlannedRun | None:
        """The next run that is wanted; None when there is none now."""
        raise NotImplementedError

    def ahead(self, count: int) -> Sequence[PlannedRun]:
        """The first of those that `ask` will give next, as far as they are known; at most so many."""
        return ()

    def reorder(self, coming: Sequence[PlannedRun]) -> None:
        """Give the runs of `ahead`, these, in this order."""

    def exhausted(self) -> bool:
        """Whether `ask` will give None for ever."""
        raise NotImplementedError

    def observe(self, planned: PlannedRun, state: RunState, value: float | None, examples: int | None) -> None:
        """A run ended (`done`, `stopped`, `failed`, or `lost` by machines) with this best dev score after so many
        examples, and its scores are in the ledger."""

    def skip(self, planned: PlannedRun) -> None:
        """A run that was handed out will not be done."""

    def refresh(self) -> None:
        """Take in what other drivers recorded, where the source learns from that; called before each `ask`."""

    def points(self) -> Mapping[str, list[tuple[int, float]]]:
        """Signature -> (examples, best dev score up to there) of runs with new points in the ledger, of any driver.

        A scheduler compares runs with them; a source whose runs no scheduler compares has none.
        """
        return {}


class ListSource(RunSource):
    """Each distinct run of a list, once, in order."""

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
