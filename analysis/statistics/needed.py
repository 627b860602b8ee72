"""Number of seeds, or of items of a held-out set, that a difference needs."""

import functools
import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import scipy
from numpy.typing import NDArray

from analysis.statistics.contrasts import Array, Difference, contrasts, student
from analysis.statistics.item_error import ItemError
from analysis.statistics.looks import level

POWER = 0.8
"""Statistical power: the probability that a difference is detected with the computed number of seeds."""
POWER_LEVEL = 2 * (1 - POWER)
"""Two-sided level whose quantile is the one-sided quantile of POWER."""
MOST_SEEDS_NEEDED = 200
"""Largest number of seeds that is reported as needed."""
MOST_ITEMS = 100
"""Further items are forecast up to this multiple of those there are."""
NEEDED_DRAWS = 400
"""Number of simulated tables behind an expectation."""
FUTURES = 500
"""Number of simulated continuations behind a forecast."""
SHARES = (0.25, 0.5, 0.75)
"""Shares of continuations that are decided with the lower end, the median and the upper end of a forecast."""
SHARES_OF_FEW = (0.2, 0.5, 0.8)
"""The same with fewer than FEW_SEEDS seeds, which know their own deviation so badly that 40% lay between quarters."""
FEW_SEEDS = 5
Forecast = tuple[int | None, int | None, int | None]
"""Further seeds or items with which SHARES of the continuations are decided; None for more than are forecast."""
SPREADS = 512
"""Number of equally likely values that stand for all that the seeds' own deviation may come to."""


def seeds_needed(
    gap: float, variance: float, weight: float, level: float, items: ItemError | None = None
) -> int | None:
    """Returns the seeds of both rows with which a true difference of `gap` is detected with probability POWER.

    None for more than MOST_SEEDS_NEEDED. `variance` is that of the difference within a seed, with `weight` degrees of
    freedom for each seed but one. `items` is the spread over items, where the interval covers it too.
    """
    seeds = np.arange(2, MOST_SEEDS_NEEDED + 1, dtype=np.float64)
    freedom = weight * (seeds - 1.0)
    errors = np.sqrt(variance / seeds)
    item_half, item_share = (items.half(level), items.half(POWER_LEVEL)) if items else (0.0, 0.0)
    reach = np.hypot(student(level, freedom) * errors, item_half)
    reach = reach + np.hypot(scipy.special.stdtrit(freedom, POWER) * errors, item_share)
    enough = seeds[reach <= abs(gap)]
    return int(enough[0]) if len(enough) else None


@functools.cache
def _draw_futures() -> tuple[Array, Array, Array, Array]:
    """Returns what further seeds of deviation 1 and mean 0 may be: [D, 1] and [D, M] for 1 to M further seeds.

    Chances of the deviation; normal errors of the difference; the further seeds' mean; their sum of squares about it.
    """
    rng, chances = np.random.default_rng(0), (np.arange(FUTURES)[:, None] + 0.5) / FUTURES
    seeds_DM, more_M = rng.normal(size=(FUTURES, MOST_SEEDS_NEEDED)), np.arange(1, MOST_SEEDS_NEEDED + 1)
    mean_DM = seeds_DM.cumsum(axis=1) / more_M
    squares_DM = np.square(seeds_DM).cumsum(axis=1) - more_M * mean_DM**2
    return rng.permutation(chances), scipy.special.ndtri(rng.permutation(chances)), mean_DM, squares_DM


def forecast_seeds(measured: Difference, margin: float) -> Forecast:
    """Returns the further seeds of both rows with which a difference is decided in 25%, 50% and 75% of futures.

    With fewer than FEW_SEEDS seeds the shares are 20%, 50% and 80%. None for over MOST_SEEDS_NEEDED. A future draws a
    true variance and difference from what the seeds say of them (the posterior under Jeffreys' prior, Gelman et al.
    2013, Bayesian Data Analysis, section 3.2), then the further seeds, and asks once, at the same level, whether the
    difference is told from 0 or placed within the margin.
    """
    chance_D1, error_D1, new_mean_DM, new_squares_DM = _draw_futures()
    seeds, half_freedom = measured.count, measured.weight * (measured.count - 1) / 2
    # The variance is scaled inverse chi-squared, of which `gammaincinv` has the quantiles.
    deviation_D1 = np.sqrt(measured.variance * half_freedom / scipy.special.gammaincinv(half_freedom, chance_D1))
    more_M = np.arange(1, MOST_SEEDS_NEEDED + 1, dtype=np.float64)
    total_M = seeds + more_M
    moved_DM = deviation_D1 * (error_D1 / math.sqrt(seeds) + new_mean_DM)
    size_DM = np.abs(abs(measured.value) + more_M / total_M * moved_DM)
    squares_DM = deviation_D1**2 * new_squares_DM + seeds * more_M / total_M * moved_DM**2
    error_DM = np.sqrt((measured.variance * (seeds - 1) + squares_DM) / (total_M - 1) / total_M)
    freedom_M = measured.weight * (total_M - 1.0)
    half_DM, tie_half_DM = (
        np.hypot(student(level, freedom_M) * error_DM, measured.items.half(level) if measured.items else 0.0)
        for level in (measured.level, 2 * measured.level)
    )
    shares = SHARES if seeds >= FEW_SEEDS else SHARES_OF_FEW
    return _read_futures((size_DM > half_DM) | (size_DM + tie_half_DM < margin), more_M, shares)


def forecast_items(difference: float, margin: float, level: float, items: ItemError) -> Forecast:
    """Returns the further items with which a difference is decided in 25%, 50% and 75% of futures, with any number of
    seeds; None for over MOST_ITEMS times as many as there are.

    A future is drawn as by `forecast_seeds`, the items' deviation being known well enough.
    """
    _, error_D1, _, _ = _draw_futures()
    total_M = np.ceil(items.count * np.geomspace(1, MOST_ITEMS + 1, MOST_SEEDS_NEEDED + 1)[1:])
    more_M = total_M - items.count
    steps_M = np.sqrt(np.diff(more_M, prepend=0.0))
    new_sum_DM = (np.random.default_rng(0).normal(size=(FUTURES, len(steps_M))) * steps_M).cumsum(axis=1)
    moved_DM = items.error * error_D1 * more_M + items.deviation * new_sum_DM
    size_DM = np.abs(abs(difference) + moved_DM / total_M)
    half_M, tie_half_M = (
        student(each, total_M - 1) * items.deviation / np.sqrt(total_M) for each in (level, 2 * level)
    )
    return _read_futures((size_DM > half_M) | (size_DM + tie_half_M < margin), more_M, SHARES)


def _read_futures(decided_DM: NDArray[np.bool_], more_M: Array, shares: Sequence[float]) -> Forecast:
    """Returns the numbers of further seeds or items at which shares of the futures are decided, once and for all."""
    decided_M = np.maximum.accumulate(decided_DM.mean(axis=0))
    low, median, high = (
        int(more_M[np.abs(decided_M - share).argmin()]) if decided_M[-1] >= share else None for share in shares
    )
    return low, median, high


def smallest_gain(deviation: float, seeds: int, level: float, margin: float) -> float | None:
    """Returns the smallest true gain that is called better with probability POWER; None for fewer than two seeds.

    `deviation` is that of one row over seeds, in the units of `margin`; both rows have the same seeds, and nothing but
    the row decides a run. The word is better where the gain is above half of the interval at `level`, and where the
    interval at twice the level is not within the margin, which would be a tie.
    """
    if seeds < 2:
        return None
    freedom, error = seeds - 1.0, deviation * np.sqrt(2 / seeds)
    chances = (np.arange(SPREADS) + 0.5) / SPREADS
    errors_D = error * np.sqrt(2 * scipy.special.gammaincinv(freedom / 2, chances) / freedom)
    least_D = np.maximum(student(level, freedom) * errors_D, margin - student(2 * level, freedom) * errors_D)
    return float(scipy.optimize.brentq(
        lambda gain: scipy.special.ndtr((gain - least_D) / error).mean() - POWER, 0.0, float(least_D.max()) + 9 * error
    ))  # fmt: skip


def expect_seeds(
    means_R: Array, reference: int, deviation: float, margin: float, columns: int, interim_analyses: Sequence[int]
) -> Array:
    """Returns the mean number of seeds that each row will have had when it is decided, or at the last look, [R].

    `means_R` are the assumed true means; `deviation` is that of a row's difference from the reference within one seed.
    """
    # A difference of two rows has twice the variance of a row.
    shape = NEEDED_DRAWS, len(means_R), interim_analyses[-1]
    noise_TRS = np.random.default_rng(0).normal(size=shape) * deviation / np.sqrt(2)
    values_TRS = np.asarray(means_R)[:, None] + noise_TRS
    share = level(len(means_R) - 1, columns, interim_analyses)
    rows = np.delete(np.arange(len(means_R)), reference)
    seeds_TR = np.full((NEEDED_DRAWS, len(means_R)), interim_analyses[0])
    open_TC = np.ones((NEEDED_DRAWS, len(rows)), bool)
    for look, next_look in pairwise(interim_analyses):
        contrast = contrasts(values_TRS[:, :, :look], reference)
        size_TC = np.abs(contrast.difference)
        open_TC &= (size_TC <= contrast.half(share)) & (size_TC + contrast.half(2 * share) >= margin)
        seeds_TR[:, rows] = np.where(open_TC, next_look, seeds_TR[:, rows])
        seeds_TR[open_TC.any(axis=1), reference] = next_look
    return np.asarray(seeds_TR.mean(axis=0))
