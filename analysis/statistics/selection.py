"""Worth of the best of many: its expected value under fewer draws, and how much of it is luck.

Papers print the best of k seeds by dev. Of all choices of k seeds from a row's N, each as likely as any other, the one
with the highest dev score is picked and its test score is printed. The share of the choices in which a seed is the pick
follows from its rank by dev alone, so that the expected test score is exact over the choices, without a draw.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from analysis.statistics.basics import CONFIDENCE, Spread, mean_and_sd, pool_spreads
from analysis.statistics.contrasts import Array, student
from analysis.statistics.looks import FAMILY

DRAWN_CELLS = (1, 5, 10)
"""Numbers of draws for which the expected best is shown, in addition to all cells."""


def expect_best(values: Sequence[float], draws: int) -> float:
    """Returns the expected maximum of `draws` values drawn at random without replacement.

    It is the mean over all subsets of that size, hence unbiased for independent values: the i-th smallest of N is the
    largest of C(i - 1, n - 1) of the C(N, n) subsets. Source: Tang et al., "Showing Your Work Doesn't Always Work", ACL
    2020, in place of the plug-in estimate with replacement of Dodge et al., "Show Your Work", EMNLP 2019, which is
    biased.
    """
    shares = shares_of_ranks(len(values), draws)
    return math.fsum(shares * sorted(values, reverse=True)[: len(shares)])


def shares_of_ranks(count: int, draws: int) -> Array:
    """Returns the share of all choices of `draws` from `count` values whose largest is the first, second, ... from
    above.

    Float64 [count - draws + 1]: lower values are the largest in no choice.
    """
    assert 1 <= draws <= count, (draws, count)
    places = np.arange(count, draws, -1)
    # From the largest value downwards, each share from the one before: binomials of thousands fit no float.
    return np.asarray(draws / count * np.cumprod(np.append(1.0, (places - draws) / (places - 1))))


def shrunken(cells: Sequence[Sequence[float]], picked: int) -> float | None:
    """Returns the picked cell's mean, shrunk as far as seeds alone would spread the cells' means.

    One-way random effects: a cell's true value varies with variance t between cells, a run with s around it (pooled),
    so its mean of n runs keeps t / (t + s / n) of its distance from the mean of all. t is the analysis of variance's
    estimate for unequal n (Searle, Casella and McCulloch, Variance Components, 1992), at least 0. None if no cell
    has two runs, or there is one cell.
    """
    variances = _variances(cells)
    if variances is None:
        return None
    between, within = variances
    means, counts = np.array([fmean(values) for values in cells]), np.array([len(values) for values in cells])
    noise = within / counts
    if between + noise.max() == 0:
        return float(means[picked])
    centre = float(np.average(means, weights=1 / (between + noise) if within else None))
    return centre + between / (between + float(noise[picked])) * (float(means[picked]) - centre)


@dataclass(frozen=True)
class Selection:
    """Pick among N cells, with estimates of how much of its score is luck."""

    candidates: int
    value: float
    """Mean score over the picked cell's seeds."""
    expected_best: Mapping[int, float]
    """Number of draws -> expected best mean of so many random cells; at N, the best of all."""
    best_run: float
    """Highest score of a run of the picked cell."""
    other_seeds: float | None
    """Mean of the picked cell's other runs; None for a single run."""
    shrunken: float | None
    """Mean of the picked cell, shrunk towards the mean of all as far as seeds explain the spread; None if unknown."""
    optimism_of_run: float | None
    """Highest run of the picked cell minus the mean of its other seeds; None for a single run."""
    optimism: float | None
    """Mean of the picked cell minus its shrunken value; None if that is unknown."""


def select(cells: Sequence[Sequence[float]], picked: int) -> Selection:
    """Returns the selection of cell `picked`; each cell holds one value per seed, at least one."""
    assert cells and all(cells) and 0 <= picked < len(cells)
    means, scores = [fmean(values) for values in cells], sorted(cells[picked])
    draws = sorted({*(n for n in DRAWN_CELLS if n <= len(cells)), len(cells)})
    other_seeds, shrunk = fmean(scores[:-1]) if len(scores) > 1 else None, shrunken(cells, picked)
    return Selection(
        candidates=len(cells),
        value=means[picked],
        expected_best={n: expect_best(means, n) for n in draws},
        best_run=scores[-1],
        other_seeds=other_seeds,
        shrunken=shrunk,
        optimism_of_run=None if other_seeds is None else scores[-1] - other_seeds,
        optimism=None if shrunk is None else means[picked] - shrunk,
    )


def _variances(cells: Sequence[Sequence[float]]) -> tuple[float, float] | None:
    """Returns the variance between cells and the variance within cells; None for one cell or no repeats."""
    spread = pool_cells(cells)
    if spread is None or len(cells) < 2:
        return None
    counts = np.array([len(values) for values in cells])
    means = np.array([fmean(values) for values in cells])
    grand = float(np.average(means, weights=counts))
    between = float((counts * (means - grand) ** 2).sum()) / (len(cells) - 1)
    # The n0 of an unbalanced one-way analysis of variance: equal to n where all cells have n runs.
    typical = (counts.sum() - (counts**2).sum() / counts.sum()) / (len(cells) - 1)
    return max(0.0, (between - spread.sd**2) / float(typical)), spread.sd**2


def pool_cells(cells: Sequence[Sequence[float]]) -> Spread | None:
    """Returns the standard deviation of runs of one cell, pooled over cells; None where no cell has two runs."""
    return pool_spreads(Spread(mean_and_sd(values)[1] or 0.0, len(values) - 1) for values in cells if len(values) > 1)


def find_rivals(cells: Sequence[Sequence[float]], picked: int, spread: Spread) -> list[int]:
    """Returns the indices of the cells that are not surely below the picked one, highest mean first.

    One-sided t tests share 5% equally (Bonferroni), each with the deviation `spread`, or a cell's own where that is
    larger. The truly best cell is the pick or one of these in 95% at least, however the pick was chosen: it is left out
    only if one of the others is wrongly called better (subset selection, Gupta 1965, Technometrics 7(2)).
    """
    means_N = np.array([fmean(values) for values in cells])
    noise_N = np.array([max(spread.sd, mean_and_sd(values)[1] or 0.0) ** 2 / len(values) for values in cells])
    half_N = student(2 * FAMILY / max(1, len(cells) - 1), spread.freedom) * np.sqrt(noise_N + noise_N[picked])
    near = np.flatnonzero(means_N[picked] - means_N <= half_N)
    return sorted((int(cell) for cell in near if cell != picked), key=lambda cell: -means_N[cell])


SEEDS_PICKED = (1, 3, 5, 10)
"""Numbers of seeds for which the best one is shown."""
SEEDS_FOR_RANGE = 20
"""Smallest number of seeds with a 95% range: of 20 seeds, the outermost one is 5%."""


@dataclass(frozen=True)
class BestOf:
    """Best of `seeds` seeds by dev; scores are in the units of the test column."""

    seeds: int
    expected: float
    """Mean test score of the picks over all choices of so many seeds."""
    error: float | None
    """Standard error of `expected` by the jackknife over seeds; None if `seeds` is above half of all."""
    spread: tuple[float, float] | None
    """Range of 95% of the picks over all choices of `seeds` seeds; None for fewer than SEEDS_FOR_RANGE seeds in all,
    and if `seeds` is above half of all, since choices then share most seeds."""


def expect_best_by(dev: Sequence[float], test: Sequence[float], seeds: int) -> float:
    """Returns the expected test score of the best of `seeds` seeds by dev, 1 to N; ties in dev count as random."""
    return float(_shares(np.asarray(dev), seeds) @ np.asarray(test))


def best_of_seeds(dev: Sequence[float], test: Sequence[float]) -> list[BestOf]:
    """Returns the best of each number in SEEDS_PICKED up to N; none for N < 3. `dev` and `test` are [N]."""
    count = len(dev)
    assert count == len(test), (count, len(test))
    if count < SEEDS_PICKED[1]:
        return []
    dev_N, test_N = np.asarray(dev, float), np.asarray(test, float)
    return [_describe(dev_N, test_N, seeds) for seeds in SEEDS_PICKED if seeds <= count]


def find_seeds_for(dev: Sequence[float], test: Sequence[float], value: float, *, lower: bool = False) -> int | None:
    """Returns the fewest seeds whose expected best by dev reaches a test score; None if not even all seeds do.

    `lower` says that the lower test score is the better one.
    """
    sign = -1.0 if lower else 1.0
    every = range(1, len(dev) + 1)
    return next((seeds for seeds in every if sign * (expect_best_by(dev, test, seeds) - value) >= 0), None)


def _describe(dev_N: Array, test_N: Array, seeds: int) -> BestOf:
    few = 2 * seeds <= len(dev_N) or seeds == 1
    shares_N = _shares(dev_N, seeds)
    return BestOf(
        seeds,
        float(shares_N @ test_N),
        _jackknife(dev_N, test_N, seeds) if few else None,
        _range(test_N, shares_N) if few and len(dev_N) >= SEEDS_FOR_RANGE else None,
    )


def _shares(dev_N: Array, seeds: int) -> Array:
    """Returns the share of all choices of `seeds` seeds in which each seed is best by dev, [N]; ties share equally."""
    order_N = np.argsort(-dev_N, kind="stable")
    by_rank_N = np.zeros(len(dev_N))
    shares = shares_of_ranks(len(dev_N), seeds)
    by_rank_N[: len(shares)] = shares
    shares_N = np.empty(len(dev_N))
    shares_N[order_N] = by_rank_N
    _, group_N, counts = np.unique(dev_N, return_inverse=True, return_counts=True)
    return np.asarray((np.bincount(group_N, shares_N) / counts)[group_N])


def _jackknife(dev_N: Array, test_N: Array, seeds: int) -> float:
    """Returns the jackknife's standard error of the expected score: sqrt((N - 1) / N * sum of squared deviations)."""
    count = len(dev_N)
    masks = [np.arange(count) != left_out for left_out in range(count)]
    without_N = np.array([_shares(dev_N[mask], seeds) @ test_N[mask] for mask in masks])
    return math.sqrt((count - 1) / count * float(((without_N - without_N.mean()) ** 2).sum()))


def _range(test_N: Array, shares_N: Array) -> tuple[float, float]:
    """Returns the test scores that leave out 2.5% of the choices on either side."""
    order_N, aside = np.argsort(test_N), (1 - CONFIDENCE) / 2
    below_N = np.cumsum(shares_N[order_N])
    ends = (int(np.searchsorted(below_N, share)) for share in (aside, 1 - aside))
    low, high = (float(test_N[order_N[min(end, len(order_N) - 1)]]) for end in ends)
    return low, high
