"""A search as a source of runs for the dispatcher."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from cluster.plan.run_source import Planned

C = TypeVar("C", contravariant=True)


class Proposer(Protocol[C]):
    """What `cluster.search.search` offers: `propose` gives a cell, None for no more, or its word for "ask again"."""

    def propose(self) -> Any: ...
    def observe(self, cell: C, seed: int, value: float | None, state: str, examples: int | None) -> None: ...


class SearchSource:
    """Cells of a proposer, each as one run per seed."""

    keeps_stopped = True

    def __init__(self, proposer: Proposer[Any], runs_of: Callable[[Any], Sequence[Planned]], wait: object) -> None:
        """`runs_of` gives a cell's runs, one per seed; `wait` is what `propose` returns for "ask again later"."""
        self._proposer, self._runs_of, self._wait = proposer, runs_of, wait
        self._left: deque[Planned] = deque()
        self._cells: dict[str, Any] = {}
        self._over = False

    def take(self) -> Planned | None:
        while not self._left and not self._over:
            cell = self._proposer.propose()
            if cell is self._wait:
                return None
            if cell is None:
                self._over = True
                break
            runs = self._runs_of(cell)
            self._cells.update({run.signature: cell for run in runs})
            self._left.extend(runs)
        return self._left.popleft() if self._left else None

    def exhausted(self) -> bool:
        return self._over and not self._left

    def tell(self, planned: Planned, state: str, value: float | None, examples: int | None) -> None:
        cell = self._cells.get(planned.signature)
        if cell is not None:
            self._proposer.observe(cell, planned.seed, value, state, examples)

    def forgo(self, planned: Planned) -> None:
        """Its cell counts as visited."""
