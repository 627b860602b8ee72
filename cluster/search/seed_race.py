"""Seed racing: after a few seeds of every cell, each further seed goes where the order is least certain.

One seed deviation is pooled over all cells. By it, two cells with means m and m' over n and n' seeds are in the wrong
order with probability 1 - T(|m - m'| / (s sqrt(1/n + 1/n'))), T being Student's with the pooled degrees of freedom. The
next seed goes to the cell for which one more would lower the expected number of wrong orders most if the means stayed.
Cells that are equal gain nothing from a seed and get none; a race is decided when no pair that may still get a seed
is wrong with a probability above `ALPHA`.

A table races all pairs. A search races its best cell against each other one, because only the best is asked for.
Every cell takes its seeds in the same order, so that cells are compared on common seeds as far as both have them.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from cluster.plan.match import Known
from cluster.plan.run_source import Planned, Source

Array = NDArray[np.float64]
ALPHA = 0.05
"""A pair counts as decided when its order is wrong with at most this probability."""


@dataclass(frozen=True)
class Standing:
    """What is known of one cell: its finished scores, and how many of its seeds are used up or under way."""

    scores: tuple[float, ...]
    used: int


def next_cell(standings: Sequence[Standing], max_seeds: int, *, only_best: bool = False) -> int | None:
    """Index of the cell that gets the next seed; None when the order is decided or no cell may get one more.

    A cell without a finished score takes no part.
    """
    racing = [i for i, one in enumerate(standings) if one.scores]
    if len(racing) < 2:
        return None
    means = np.array([np.mean(standings[i].scores) for i in racing])
    counts = np.array([max(len(standings[i].scores), standings[i].used) for i in racing], dtype=float)
    free = np.array([standings[i].used < max_seeds for i in racing])
    deviation, freedom = pooled_deviation([standings[i].scores for i in racing])
    if deviation is None:
        return _without_spread(racing, free, means if only_best else -counts)
    before = wrong_order(means, counts, counts, deviation, freedom)
    after = wrong_order(means, counts + 1, counts, deviation, freedom)
    asked = _asked(means, only_best)
    undecided = (before > ALPHA) & asked & (free[:, None] | free[None, :])
    gains = np.where(free, np.sum((before - after) * asked, axis=1), -1.0)
    best = int(np.argmax(gains))
    return racing[best] if undecided.any() and gains[best] > 0 else None


def pooled_deviation(scores: Iterable[Sequence[float]]) -> tuple[float | None, int]:
    """Within-cell deviation over all cells and its degrees of freedom; None where no cell has two seeds."""
    groups = [np.asarray(group, dtype=float) for group in scores]
    freedom = sum(len(group) - 1 for group in groups)
    if freedom < 1:
        return None, 0
    squares = sum(float(np.sum((group - group.mean()) ** 2)) for group in groups)
    return max(np.sqrt(squares / freedom), 1e-12), freedom


def wrong_order(means: Array, counts: Array, others: Array, deviation: float, freedom: int) -> Array:
    """[C, C]: probability that cells i, with counts[i] seeds, and j, with others[j], stand the wrong way; 0 for i=j."""
    spread = deviation * np.sqrt(1 / counts[:, None] + 1 / others[None, :])
    found = stdtr(freedom, -np.abs(means[:, None] - means[None, :]) / spread)
    np.fill_diagonal(found, 0.0)
    return found


def _asked(means: Array, only_best: bool) -> NDArray[np.bool_]:
    """[C, C]: the pairs whose order is asked for."""
    if not only_best:
        return np.ones((len(means), len(means)), dtype=bool)
    leads = np.arange(len(means)) == np.argmax(means)
    return leads[:, None] | leads[None, :]


def _without_spread(racing: Sequence[int], free: NDArray[np.bool_], worth: Array) -> int | None:
    """Before any cell has two seeds: the best cell of a search, the one with the fewest seeds of a table."""
    return racing[int(np.argmax(np.where(free, worth, -np.inf)))] if free.any() else None


class Race:
    """The seeds of every cell of a sweep, and which seed comes next."""

    def __init__(self, max_seeds: int, known: Iterable[Known], *, only_best: bool) -> None:
        """`known`: what the ledger has of the space, extra seeds included."""
        self._max_seeds, self._only_best = max_seeds, only_best
        self._keys: dict[str, Mapping[str, Any]] = {}
        self._used: dict[str, set[int]] = {}
        self._scores: dict[str, dict[int, float]] = {}
        for one in known:
            if one.final or one.live:
                self.record(one.cell.key, one.seed, one.state, one.value)

    def enter(self, key: Mapping[str, Any], seed: int) -> None:
        """A run of this cell is under way."""
        name = json.dumps(dict(key), sort_keys=True)
        self._keys[name] = dict(key)
        self._used.setdefault(name, set()).add(seed)
        self._scores.setdefault(name, {})

    def record(self, key: Mapping[str, Any], seed: int, state: str, value: float | None) -> None:
        """A run ended; one that failed or was stopped used up its seed and gave no score."""
        self.enter(key, seed)
        if state == "done" and value is not None:
            self._scores[json.dumps(dict(key), sort_keys=True)][seed] = value

    def next_seed(self) -> tuple[Mapping[str, Any], int] | None:
        """The cell's key and the smallest seed that it has not used; None when nothing is to be decided now."""
        names = list(self._keys)
        standings = [Standing(tuple(self._scores[name].values()), len(self._used[name])) for name in names]
        index = next_cell(standings, self._max_seeds, only_best=self._only_best)
        if index is None:
            return None
        used = self._used[names[index]]
        return self._keys[names[index]], min(set(range(len(used) + 1)) - used)


class SeedRace(Protocol):
    """What `cluster.search.seed_race.Race` offers."""

    def enter(self, key: Mapping[str, Any], seed: int) -> None: ...
    def record(self, key: Mapping[str, Any], seed: int, state: str, value: float | None) -> None: ...
    def next_seed(self) -> tuple[Mapping[str, Any], int] | None: ...


class RaceSource:
    """A source's runs, and once they are handed out further seeds of their cells, as a race asks for them."""

    def __init__(self, source: Source, race: SeedRace, run_of: Callable[[Mapping[str, Any], int], Planned]) -> None:
        """`run_of` gives the run of a cell's key and a seed."""
        self._source, self._race, self._run_of = source, race, run_of
        self._open: set[str] = set()
        self._decided = False
        self.keeps_stopped = source.keeps_stopped

    def take(self) -> Planned | None:
        planned = self._source.take()
        if planned is None and self._source.exhausted():
            planned = self._further()
        if planned is not None:
            self._race.enter(planned.cell, planned.seed)
            self._open.add(planned.signature)
        return planned

    def exhausted(self) -> bool:
        return self._decided

    def tell(self, planned: Planned, state: str, value: float | None, examples: int | None) -> None:
        self._open.discard(planned.signature)
        self._race.record(planned.cell, planned.seed, state, value)
        self._source.tell(planned, state, value, examples)

    def forgo(self, planned: Planned) -> None:
        self._open.discard(planned.signature)
        self._source.forgo(planned)

    def _further(self) -> Planned | None:
        """The race's next seed; the race is over once it asks for none while no run is under way."""
        found = self._race.next_seed()
        if found is None:
            self._decided = not self._open
            return None
        return self._run_of(*found)
