"""A search proposes cells; every seed of a cell is one noisy observation of it. The ledger is the only truth.

A search starts from what the ledger knows of its space (`Memory`), whoever ran it: finished runs are observations,
runs that others hold count as under way, half-finished cells come first. So a driver that died at any point loses
nothing, and a second driver of the same search does not repeat the first one's cells.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

import numpy as np

from cluster.plan.match import Known, LedgerRow, Memory, Sign, known
from cluster.search.optuna_sampler import OptunaSampler
from cluster.search.samplers import GridSampler, RandomSampler, Sampler, Unvisited
from search_spaces.cells import Cell, ResolvedSpace
from search_spaces.space import SearchConfig

ASKS = 20
"""Times that a sampler may name a cell that was visited before; then it gets an unvisited one."""


class Mirror(Protocol):
    """A copy of what the search learns, for people to look at; nothing reads it back."""

    def add(self, seen: Known) -> None: ...


class Search:
    """Proposes cells until `num_samples` were visited or the space is exhausted."""

    def __init__(
        self,
        sampler: Sampler,
        unvisited: Unvisited,
        seeds: tuple[int, ...],
        num_samples: int | None,
        mirror: Mirror | None = None,
    ) -> None:
        self._sampler, self._unvisited, self._mirror = sampler, unvisited, mirror
        self._seeds, self._num_samples = seeds, num_samples
        self._visits: dict[str, dict[int, Known]] = {}
        self._resume: deque[Cell] = deque()
        self._await: deque[Cell] = deque()

    @property
    def visited(self) -> int:
        """Cells that were proposed here or are known from the ledger."""
        return len(self._visits)

    def recall(self, found: Iterable[Known]) -> None:
        """Take in what the ledger knows; a cell that lacks a seed is proposed again, first or, where held, last."""
        cells = {}
        for seen in found:
            if seen.cell.id not in self._visits or seen.cell.id in cells:
                cells[seen.cell.id] = seen.cell
                self._record(seen)
        for cell in cells.values():
            self._queue(cell)

    def propose(self) -> Cell | None:
        """The next cell to run with every seed; None when the search is over."""
        if self._resume:
            return self._resume.popleft()
        cell = self._fresh() if self._num_samples is None or self.visited < self._num_samples else None
        if cell is None:
            return self._await.popleft() if self._await else None
        self._visits[cell.id] = {}
        self._sampler.take(cell)
        return cell

    def observe(
        self, cell: Cell, seed: int, value: float | None, state: str = "done", examples: int | None = None
    ) -> None:
        """A run ended with this best dev score, in state done, stopped or failed; saying it twice changes nothing."""
        self._record(known(cell, seed, state if value is not None else "failed", value, examples))

    def _record(self, seen: Known) -> None:
        visits = self._visits.setdefault(seen.cell.id, {})
        before = visits.get(seen.seed)
        if before and before.final and (before.state, before.value) == (seen.state, seen.value):
            return
        visits[seen.seed] = seen
        if not seen.final:
            self._sampler.take(seen.cell)
            return
        self._sampler.learn(seen)
        if self._mirror:
            self._mirror.add(seen)

    def _queue(self, cell: Cell) -> None:
        visits = self._visits[cell.id]
        missing = [seed for seed in self._seeds if seed not in visits or not visits[seed].final]
        if any(seed in visits and visits[seed].live for seed in missing):
            self._await.append(cell)
        elif missing:
            self._resume.append(cell)

    def _fresh(self) -> Cell | None:
        for _ in range(ASKS):
            cell = self._sampler.suggest()
            if cell is None or not self._was_visited(cell):
                return cell
            self._sampler.repeat(cell, self._stored(cell))
        return self._unvisited.draw(self._was_visited)

    def _was_visited(self, cell: Cell) -> bool:
        return cell.id in self._visits

    def _stored(self, cell: Cell) -> float | None:
        """Mean over the finished seeds."""
        values = [one.value for one in self._visits[cell.id].values() if one.state == "done" and one.value is not None]
        return sum(values) / len(values) if values else None


def make_search(
    resolved: ResolvedSpace,
    rows: Iterable[LedgerRow],
    sign: Sign,
    *,
    seeds: tuple[int, ...] | None = None,
    mirror: Mirror | None = None,
) -> Search:
    """The search that a space's `search:` asks for, knowing the ledger's rows; `sign(run)` gives a run's signature."""
    settings = resolved.space.search or SearchConfig(sampler="grid")
    found = Memory(resolved, sign).known(rows)
    rng = np.random.default_rng([settings.seed, len(found)])
    unvisited = Unvisited(resolved, rng)
    seeds = seeds or resolved.space.seeds
    search = Search(_sampler(resolved, settings, rng), unvisited, seeds, settings.num_samples, mirror)
    search.recall(found)
    return search


def _sampler(resolved: ResolvedSpace, settings: SearchConfig, rng: np.random.Generator) -> Sampler:
    if settings.sampler == "grid":
        return GridSampler(resolved)
    if settings.sampler == "random":
        return RandomSampler(resolved, rng)
    return OptunaSampler(resolved, settings, seed=int(rng.integers(2**31)))


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
