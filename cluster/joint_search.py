"""Several drivers of one search: each takes in what the others began before it proposes a cell of its own."""

import time
from collections.abc import Callable, Iterable

from cluster.cells import Cell
from cluster.known import Known
from cluster.search import Search

EVERY_S = 5.0
"""Seconds for which what the ledger said is not asked again."""


class JointSearch:
    """A search whose cells count together with those of other drivers, so that all of them visit `num_samples`."""

    def __init__(self, search: Search, recorded: Callable[[], Iterable[Known]], every_s: float = EVERY_S) -> None:
        """`recorded` reads the sweep's runs out of the ledger, this driver's own among them."""
        self._search, self._recorded, self._every_s = search, recorded, every_s
        self._next = time.monotonic() + every_s

    def propose(self) -> Cell | None:
        """As `Search.propose`."""
        if time.monotonic() >= self._next:
            self._search.recall(self._recorded())
            self._next = time.monotonic() + self._every_s
        return self._search.propose()

    def observe(
        self, cell: Cell, seed: int, value: float | None, state: str = "done", examples: int | None = None
    ) -> None:
        """As `Search.observe`."""
        self._search.observe(cell, seed, value, state, examples)
