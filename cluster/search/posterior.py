"""One Gaussian process over all cells: what every run says about its neighbours, and which cell is best by that.

Each (cell, seed) is one noisy observation of the cell's score. A best observed score is best partly by luck, and the
more cells are tried the more so; a mean that pools neighbours and knows the seed noise is not. scikit-learn fits a
Matern 5/2 kernel with one length per input and white noise for the seeds.

* Next cell: one draw of the whole surface from the posterior, without noise, and its highest cell that was not run
  (Thompson's rule). Runs under way need no special case, because the next draw is another one.
* Pick: the highest posterior mean among cells with a finished run.
* A stopped run is an observation at its share of the training examples. The share is one more input, on a log scale,
  and every question is asked at full length, so how far short runs speak for long ones is learnt, not assumed.
"""

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import norm, rankdata

from cluster.plan.match import Known
from cluster.search.encoding import encoding_of
from search_spaces.cells import Cell, ResolvedSpace
from search_spaces.space import SearchConfig

Array = NDArray[np.float64]
CANDIDATES = 400
"""Cells among which the next one is looked for, drawn at random where the space has more."""
FIRST_FIT = 6
"""Observations from which on the kernel is fitted; fewer are read with the kernel where fitting starts."""
LENGTH, NOISE = 0.6, 0.15
"""Medians of the priors on the kernel's lengths and on the variance of a seed, where scores have variance 1."""
GROWTH = 1.25
"""The kernel is fitted again when observations have grown by this factor; in between only its data change."""


@dataclass(frozen=True)
class Pick:
    """The best cell by posterior mean."""

    cell: Cell
    mean: float
    sd: float
    """Of the cell's expected score, without the noise of a seed."""
    n: int
    """Finished runs of this cell."""


def pick(resolved: ResolvedSpace, known: Iterable[Known]) -> Pick | None:
    """The cell with the highest posterior mean among those with a finished run; None when there is none."""
    seen = [one for one in known if one.final and one.value is not None]
    cells = list({one.cell.id: one.cell for one in seen if one.state == "done"}.values())
    if not cells:
        return None
    mean, covariance = Posterior(resolved).fitted(seen).at(cells)
    best = int(np.argmax(mean))
    count = sum(one.state == "done" and one.cell.id == cells[best].id for one in seen)
    return Pick(cells[best], float(mean[best]), float(np.sqrt(covariance[best, best])), count)


class Posterior:
    """The surface given observations; scores in, scores out."""

    def __init__(self, resolved: ResolvedSpace) -> None:
        self._encode = encoding_of(resolved)
        self._kernel: Any = None
        self._fitted_on = 0
        self._columns = slice(0)

    def fitted(self, seen: Sequence[Known]) -> "Posterior":
        """Condition on these runs, each with a value; the kernel is fitted anew where they have grown by GROWTH."""
        shares = [_share(one) for one in seen]
        columns = slice(0 if any(shares) else 1, None)
        if columns != self._columns:
            self._columns, self._kernel, self._fitted_on = columns, None, 0
        values = half_rank(np.array([one.value for one in seen], dtype=float))
        self._middle, self._scale = float(values.mean()), float(values.std()) or 1.0
        inputs = self._inputs([one.cell for one in seen], shares)
        self._regress(inputs, (values - self._middle) / self._scale)
        return self

    def at(self, cells: Sequence[Cell]) -> tuple[Array, Array]:
        """Mean [M] and covariance [M, M] of the cells' expected scores, seed noise left out."""
        mean, covariance = self._model.predict(self._inputs(cells, [0.0] * len(cells)), return_cov=True)
        covariance[np.diag_indices_from(covariance)] -= self._kernel.k2.noise_level
        diagonal = np.maximum(np.diag(covariance), 1e-9)
        np.fill_diagonal(covariance, diagonal)
        return self._middle + self._scale * mean, self._scale**2 * covariance

    def draw(self, cells: Sequence[Cell], rng: np.random.Generator) -> Array:
        """One surface [M] from the posterior."""
        return rng.multivariate_normal(*self.at(cells), method="eigh", check_valid="ignore")

    def _inputs(self, cells: Sequence[Cell], shares: Sequence[float]) -> Array:
        rows = [[share, *self._encode(cell.key)] for cell, share in zip(cells, shares, strict=True)]
        return np.array(rows, dtype=float)[:, self._columns]

    def _regress(self, inputs: Array, values: Array) -> None:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.gaussian_process import GaussianProcessRegressor

        due = len(values) >= max(FIRST_FIT, GROWTH * self._fitted_on)
        kernel = self._kernel or _prior_kernel(inputs.shape[1])
        model = GaussianProcessRegressor(kernel, optimizer=most_probable if due else None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a length at its bound: the axis does not matter
            self._model = model.fit(inputs, values)
        self._kernel = model.kernel_
        self._fitted_on = len(values) if due else self._fitted_on


def _prior_kernel(inputs: int) -> Any:
    """Where fitting starts, and between which bounds it stays: scores are scaled to deviation 1, axes to 0..1."""
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    smooth = Matern(np.full(inputs, 0.7), (0.2, 10.0), nu=2.5)
    return ConstantKernel(1.0, (0.3, 5.0)) * smooth + WhiteKernel(0.1, (0.01, 1.0))


def most_probable(
    objective: Callable[[Array], tuple[float, Array]], start: Array, bounds: Array
) -> tuple[Array, float]:
    """The kernel's logarithms of highest posterior density, as scikit-learn's `optimizer`.

    The likelihood of a dozen runs alone often says that there is no noise, or nothing but noise; normal priors on the
    logarithms hold it off both.
    """
    lengths = len(start) - 2
    centre = np.array([0.0, *[math.log(LENGTH)] * lengths, math.log(NOISE)])
    spread = np.array([0.5, *[0.7] * lengths, 1.0])

    def penalised(theta: Array) -> tuple[float, Array]:
        value, gradient = objective(theta)
        away = (theta - centre) / spread
        return value + 0.5 * float(away @ away), gradient + away / spread

    found = minimize(penalised, start, jac=True, method="L-BFGS-B", bounds=[(low, high) for low, high in bounds])
    return found.x, float(found.fun)


def _share(one: Known) -> float:
    """log2 of the share of its training that a stopped run did: 0 for a finished one."""
    if one.state != "stopped" or not one.examples:
        return 0.0
    return math.log2(one.examples / one.cell.run(one.seed).train.examples)


def half_rank(values: Array) -> Array:
    """Values below the median, by rank, on a normal's lower half as wide as the upper half is; the others as they are.

    Runs that break score far below all others and would set the scale of the whole surface; how far below says nothing
    about where the best is (Song et al. 2024, "The Vizier Gaussian Process Bandit Algorithm", half-rank warping).
    """
    median = np.median(values)
    upper = values[values >= median]
    width = float(np.sqrt(np.mean((upper - median) ** 2)))
    quantile = (rankdata(values) - 0.5) / len(values)
    return np.where(values < median, median + width * norm.ppf(np.minimum(quantile, 0.5)), values)


class PosteriorSampler:
    """Proposes by Thompson's rule over the posterior; the first `startup` cells are drawn at random."""

    def __init__(self, resolved: ResolvedSpace, settings: SearchConfig, rng: np.random.Generator) -> None:
        self._resolved, self._settings, self._rng = resolved, settings, rng
        self._posterior = Posterior(resolved)
        self._seen: dict[tuple[str, int], Known] = {}
        self._taken: set[str] = set()
        self._listed = resolved.cells() if resolved.size() is not None else None

    def suggest(self) -> Cell | None:
        candidates = self._candidates()
        if not candidates:
            return None
        seen = [one for one in self._seen.values() if one.value is not None]
        if len(self._taken) < self._settings.startup or not seen:
            return candidates[int(self._rng.integers(len(candidates)))]
        return candidates[int(np.argmax(self._posterior.fitted(seen).draw(candidates, self._rng)))]

    def repeat(self, cell: Cell, value: float | None) -> None:
        """Nothing: the cell was taken before, and what is known of it was learnt."""

    def take(self, cell: Cell) -> None:
        self._taken.add(cell.id)

    def learn(self, seen: Known) -> None:
        self._taken.add(seen.cell.id)
        self._seen[seen.cell.id, seen.seed] = seen

    def _candidates(self) -> list[Cell]:
        if self._listed is None:
            return [self._resolved.sample(self._rng) for _ in range(CANDIDATES)]
        self._listed = [cell for cell in self._listed if cell.id not in self._taken]
        if len(self._listed) <= CANDIDATES:
            return self._listed
        return [self._listed[i] for i in self._rng.choice(len(self._listed), CANDIDATES, replace=False)]
