"""Feeds the cells of a search to the dispatcher as runs."""

from collections import deque
from collections.abc import Callable, Sequence

from analysis.run_state import RunState
from cluster.plan.plan import PlannedRun
from cluster.plan.run_source import RunSource
from cluster.search.feed import Points
from cluster.search.search import Search
from search_spaces.cells import Cell


class SearchSource(RunSource):
    """Source of a search's runs, one per cell and seed; the cell of a skipped run counts as visited."""

    keeps_stopped = True
    proposes = True

    def __init__(
        self,
        search: Search,
        runs_of: Callable[[Cell], Sequence[PlannedRun]],
        points: Callable[[], Points] = dict,
    ) -> None:
        """Wraps a search; `runs_of` returns a cell's runs, one per seed, `points` new dev scores in the ledger."""
        self._search, self._runs_of, self._points = search, runs_of, points
        self._left: deque[PlannedRun] = deque()
        self._cells: dict[str, Cell] = {}
        self._over = False

    def ask(self) -> PlannedRun | None:
        while not self._left and not self._over:
            cell = self._search.propose()
            if cell is None:
                self._over = True
                break
            runs = self._runs_of(cell)
            self._cells.update({run.signature: cell for run in runs})
            self._left.extend(runs)
        return self._left.popleft() if self._left else None

    def exhausted(self) -> bool:
        return self._over and not self._left

    def refresh(self) -> None:
        self._search.refresh()

    def points(self) -> Points:
        return self._points()

    def observe(self, planned: PlannedRun, state: RunState, value: float | None, examples: int | None) -> None:
        cell = self._cells.get(planned.signature)
        if cell is not None and state != RunState.LOST:
            self._search.observe(cell, planned.seed, value, state, examples)
