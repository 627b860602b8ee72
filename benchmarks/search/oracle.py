"""Strategies that cannot exist: they know the recorded surface's kernel, its noise and how early scores mislead.

What they leave of random search's regret is what no strategy that has to learn these things can be asked for. They
share everything else with the others: price of a run, one seed a cell, a pick judged by the seeds that were not drawn.

A cell's expected score is a draw from a Gaussian process whose kernel is fitted to all recorded runs. A score after a
share of the training, put on the scale of final scores by a line, is that plus a bias (a second process, its size
fitted for each share) plus seed noise.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.search.replay import Grid, Replay
from benchmarks.search.strategies import Strategy
from search_spaces.cells import Cell

Array = NDArray[np.float64]
FIRST_STOP, DOUBT = 0.6, 0.5
"""A run goes on after this share of its evaluations while its cell's posterior mean is at most so many deviations below
the best other cell's: the best of the twelve pairs of 0.4 or 0.6 and 0, 0.5 or 1 on `recorded_grid`, by Thompson's rule
or knowledge gradient."""


@dataclass(frozen=True)
class Surface:
    """Knowledge of an oracle: the covariance of scores and their noise, scores counted from the grid's mean."""

    mean: float
    cover: Array
    """[C, C]: covariance of the cells' expected scores."""
    lines: Array
    """[T, 2]: score after t evaluations -> final score."""
    bias: Array
    """[T]: deviation of what such a line leaves of the cells' means."""
    bias_cover: Array
    """[C, C]: its correlation."""
    noise: Array
    """[C, T]: variance of a seed."""

    @property
    def first_stop(self) -> int:
        """Evaluations after which a run may be stopped."""
        return round(FIRST_STOP * len(self.lines))


def surface_of(grid: Grid) -> Surface:
    """Fitted to every recorded run."""
    means, finals = grid.curves.mean(axis=1), grid.finals.mean(axis=1)
    lines = np.array([np.polyfit(means[:, t], finals, 1) for t in range(means.shape[1])])
    left = means * lines[:, 0] + lines[:, 1] - finals[:, None]
    noise = grid.curves.var(axis=1, ddof=1) * lines[:, 0] ** 2
    inputs = ranks(grid)
    seeds = grid.finals.shape[1]
    cover = _cover(inputs, finals - finals.mean(), noise[:, -1].mean() / seeds)
    early = round(FIRST_STOP * len(lines)) - 1
    correlation = _cover(inputs, left[:, early] / left[:, early].std(), 0.1)
    return Surface(float(finals.mean()), cover, lines, left.std(axis=0), correlation, noise)


def ranks(grid: Grid) -> Array:
    """[C, D] from 0 to 1: each cell's place on every axis; the order of the values counts, not their spacing."""
    axes = {name: sorted(domain.values()) for name, domain in grid.resolved.axes.items()}
    places = [[values.index(cell.key[name]) for name, values in axes.items()] for cell in grid.cells]
    return np.array(places) / [max(1, len(values) - 1) for values in axes.values()]


def _cover(inputs: Array, values: Array, noise: float) -> Array:
    """[C, C]: the most likely Matern 5/2 kernel with a length per axis."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern

    kernel = ConstantKernel(values.var(), (1e-2, 1e3)) * Matern(np.full(inputs.shape[1], 0.5), (0.05, 1e3), nu=2.5)
    model = GaussianProcessRegressor(kernel, alpha=noise, n_restarts_optimizer=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a length at its bound: the axis does not matter
        fitted = model.fit(inputs, values)
    return np.asarray(fitted.kernel_(inputs))


class Belief:
    """The cells' expected scores given the runs so far."""

    def __init__(self, surface: Surface, noise: Array) -> None:
        """`noise`: [C, T] as this oracle knows it."""
        self._surface, self._noise, self.first_stop = surface, noise, surface.first_stop

    def after(self, seen: Sequence[tuple[int, int, float]]) -> tuple[Array, Array]:
        """Mean [C] and covariance [C, C] after (cell, evaluations, score) each."""
        surface = self._surface
        cells, ends = np.array([run[0] for run in seen], dtype=int), np.array([run[1] - 1 for run in seen], dtype=int)
        values = np.array([run[2] for run in seen]) * surface.lines[ends, 0] + surface.lines[ends, 1] - surface.mean
        bias = surface.bias[ends]
        inner = surface.cover[np.ix_(cells, cells)] + np.outer(bias, bias) * surface.bias_cover[np.ix_(cells, cells)]
        gain = np.linalg.solve(inner + np.diag(self._noise[cells, ends]), surface.cover[cells])
        return surface.mean + values @ gain, surface.cover - surface.cover[:, cells] @ gain


def oracles(grid: Grid) -> dict[str, Strategy]:
    """Name -> strategy, on this grid alone."""
    surface = surface_of(grid)
    pooled = np.broadcast_to(surface.noise.mean(axis=0), surface.noise.shape)
    return {
        "oracle: kernel": _strategy(Belief(surface, pooled), stops=False),
        "oracle: kernel, noise of each cell": _strategy(Belief(surface, surface.noise), stops=False),
        "oracle: kernel, noise, early scores": _strategy(Belief(surface, surface.noise), stops=True),
    }


def _strategy(belief: Belief, *, stops: bool) -> Strategy:
    """Thompson's rule, one seed a cell; the best posterior mean among the cells that were run."""

    def strategy(replay: Replay, rng: np.random.Generator) -> Cell:
        cells, seen = replay.grid.cells, list[tuple[int, int, float]]()
        left = set(range(len(cells)))
        mean, cover = belief.after(seen)
        while replay.affords and left:
            drawn = rng.multivariate_normal(mean, cover, method="eigh", check_valid="ignore")
            chosen = max(left, key=lambda i: float(drawn[i]))
            left.remove(chosen)
            end = replay.run(cells[chosen], _stop(belief, seen, chosen) if stops else _never)
            seen.append((chosen, int(np.searchsorted(replay.grid.examples, end.examples)) + 1, end.value))
            mean, cover = belief.after(seen)
        return cells[max((run[0] for run in seen), key=lambda i: float(mean[i]))]

    return strategy


def _never(number: int, value: float) -> bool:
    return False


def _stop(belief: Belief, seen: Sequence[Any], chosen: int) -> Callable[[int, float], bool]:
    def stop(number: int, value: float) -> bool:
        if number < belief.first_stop:
            return False
        mean, cover = belief.after([*seen, (chosen, number, value)])
        rival = int(np.argmax(np.where(np.arange(len(mean)) == chosen, -np.inf, mean)))
        spread = cover[chosen, chosen] + cover[rival, rival] - 2 * cover[chosen, rival]
        return bool(mean[chosen] - mean[rival] < -DOUBT * np.sqrt(max(spread, 1e-9)))

    return stop
