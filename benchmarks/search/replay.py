"""Recorded runs that a strategy may ask for one at a time, each at its price in training examples.

In each repetition every cell's recorded seeds lie in another random order; a strategy that asks for a cell again gets
the next one. What it did not draw is the truth that it is judged by. One seed of each cell is never handed out.
"""

import dataclasses
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.run_state import RunState
from benchmarks.search.record_grid import Json
from search_spaces.catalog import load_space
from search_spaces.cells import Cell, ResolvedSpace, resolve

Array = NDArray[np.float64]
GRACE, REDUCTION = 0.2, 3
"""Rungs at a fifth of a run and three times that, as `search.scheduler: asha` has them."""


@dataclass(frozen=True)
class Grid:
    """Complete cells of a recording; curves hold the best dev score so far."""

    resolved: ResolvedSpace
    cells: list[Cell]
    curves: Array
    """[C, S, T]"""
    examples: Array
    """[T] at which the scores were taken."""

    @property
    def finals(self) -> Array:
        """[C, S]: what a full run reports, the best of its evaluations."""
        return self.curves[:, :, -1]

    @property
    def best(self) -> int:
        """The cell with the highest mean over all recorded seeds."""
        return int(np.argmax(self.finals.mean(axis=1)))

    def deviation(self) -> float:
        """Pooled seed deviation within cells."""
        return float(np.sqrt(self.finals.var(axis=1, ddof=1).mean()))


def grid_of(recorded: Json) -> Grid:
    """The recording as arrays; of a partial one, the values of the first axis for which every cell is complete."""
    resolved = resolve(
        load_space(recorded["space"]),
    )
    seeds = recorded["seeds"]
    runs = {(tuple(run["cell"]), run["seed"]): run for run in recorded["runs"]}
    whole = {key for key, _ in runs if all((key, seed) in runs for seed in seeds)}
    first, domain = next(iter(resolved.axes.items()))
    usable = tuple(v for v in domain.values() if all(_key(c) in whole for c in resolved.cells() if c.key[first] == v))
    if not usable:
        raise SystemExit(f"too few runs: recorded={len(runs)} of {recorded['runs_wanted']}; record more of the grid")
    axes = {**resolved.axes, first: dataclasses.replace(domain, arguments=usable)}
    resolved = dataclasses.replace(resolved, axes=axes)
    cells = resolved.cells()
    scores = np.array([[runs[_key(cell), seed]["scores"] for seed in seeds] for cell in cells])
    examples = np.array(recorded["runs"][0]["examples"], dtype=float)
    return Grid(resolved, cells, np.maximum.accumulate(scores, axis=2), examples)


def _key(cell: Cell) -> tuple[object, ...]:
    return tuple(cell.key.values())


def synthetic(rng: np.random.Generator, noise: float = 1.0) -> Grid:
    """Makes a smooth surface over the recorded grid's axes whose highest learning rate breaks, with seed noise."""
    resolved = resolve(
        load_space("recorded_grid"),
    )
    ranks = np.array(list(np.ndindex(*(len(domain.values()) for domain in resolved.axes.values()))), dtype=float)
    top, width, tilt = rng.uniform(2, 4.5), rng.uniform(0.8, 2), rng.uniform(-0.6, 0.6)
    steps = rng.normal(0, 0.7, 4).cumsum()[ranks[:, 0].astype(int)] + rng.normal(0, 1, 3)[ranks[:, 1].astype(int)]
    finals = 55 - width * (ranks[:, 2] - top - tilt * ranks[:, 0]) ** 2 + steps - 15 * (ranks[:, 2] == 6)
    early = np.linspace(0.1, 1, 10) ** 0.3
    curves = finals[:, None, None] - 15 * (1 - early) + rng.normal(0, noise, (len(ranks), 5, 1))
    curves = np.maximum.accumulate(curves + rng.normal(0, noise / 4, (len(ranks), 5, 10)), axis=2)
    return Grid(resolved, resolved.cells(), curves, np.arange(1, 11) * 320.0)


@dataclass(frozen=True)
class Ended:
    """End of a run that a strategy paid for."""

    seed: int
    """Number of earlier runs of this cell."""
    state: RunState
    value: float
    examples: int


class Replay:
    """Repetition of a search on recorded runs: hands out runs and counts what they cost."""

    def __init__(self, grid: Grid, budget: float, rng: np.random.Generator) -> None:
        """`budget` in training examples."""
        self.grid, self.left = grid, budget
        cells, seeds = grid.finals.shape
        self._order = np.stack([rng.permutation(seeds) for _ in range(cells)])
        self._drawn = np.zeros(cells, dtype=int)
        self._index = {cell.id: i for i, cell in enumerate(grid.cells)}

    @property
    def affords(self) -> bool:
        """True while the budget pays for a full run."""
        return self.left >= self.grid.examples[-1]

    def has(self, cell: Cell) -> bool:
        """Returns whether the cell has a run left to hand out."""
        return self._drawn[self._index[cell.id]] < self._order.shape[1] - 1

    def run(self, cell: Cell, stops=lambda number, value: False) -> Ended:
        """The cell's next run; `stops(number, value)` is asked after each evaluation but the last, from 1."""
        i = self._index[cell.id]
        seed = int(self._drawn[i])
        curve = self.grid.curves[i, self._order[i, seed]]
        self._drawn[i] += 1
        last = len(curve)
        end = next((n for n in range(1, last) if stops(n, curve[n - 1])), last)
        examples = self.grid.examples[end - 1]
        self.left -= examples
        return Ended(seed, RunState.DONE if end == last else RunState.STOPPED, float(curve[end - 1]), int(examples))

    def truth(self) -> tuple[Array, Array]:
        """[C], [C]: mean over the seeds that were not drawn, and how many those are."""
        free = np.arange(self._order.shape[1]) >= self._drawn[:, None]
        finals = np.take_along_axis(self.grid.finals, self._order, axis=1)
        return (finals * free).sum(axis=1) / free.sum(axis=1), free.sum(axis=1)

    def regret(self, pick: Cell) -> tuple[float, bool]:
        """Returns how far the pick's true score is below the best cell's, and whether within one standard error."""
        truth, count = self.truth()
        best = self.grid.best
        lost = float(truth[best] - truth[self._index[pick.id]])
        return lost, lost <= self.grid.deviation() / np.sqrt(count[best])


class Rungs:
    """Ray's asynchronous successive halving: a run below the top third of those before it at a rung is stopped."""

    def __init__(self, evaluations: int) -> None:
        grace = round(GRACE * evaluations)
        self._seen: dict[int, list[float]] = {rung: [] for rung in (grace, grace * REDUCTION) if rung < evaluations}

    def __call__(self, number: int, value: float) -> bool:
        if number not in self._seen:
            return False
        before = list(self._seen[number])
        self._seen[number].append(value)
        return bool(before and value < np.percentile(before, (1 - 1 / REDUCTION) * 100))
