"""Number of seeds, or of items of a held-out set, that a difference needs."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import scipy

from analysis.statistics.contrasts import Array, contrasts, student
from analysis.statistics.item_error import ItemError
from analysis.statistics.looks import level

POWER = 0.8
"""Statistical power: the probability that a difference is detected with the computed number of seeds."""
POWER_LEVEL = 2 * (1 - POWER)
"""Two-sided level whose quantile is the one-sided quantile of POWER."""
MOST_SEEDS_NEEDED = 200
"""Largest number of seeds that is reported as needed."""
NEEDED_DRAWS = 400
"""Number of simulated tables behind an expectation."""
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


def seeds_to_decide(
    difference: float, margin: float, variance: float, weight: float, level: float, items: ItemError | None = None
) -> int | None:
    """Returns the seeds that separate a difference from 0, or place it within the margin, whichever takes fewer.

    A tie is decided at twice the level: its interval is one of 90% where a direction's is one of 95%.
    """
    ways = (seeds_needed(gap, variance, weight, share, items) for gap, share in _gaps(difference, margin, level))
    return min((way for way in ways if way is not None), default=None)


def items_to_decide(difference: float, margin: float, level: float, items: ItemError) -> int | None:
    """Returns the items that separate a difference from 0, or place it within the margin, with any number of seeds.

    Their spread is that of `items`. None for a difference of 0, or of exactly the margin, which no number decides.
    """
    ways = [
        math.ceil(items.count * ((items.half(share) + items.half(POWER_LEVEL)) / abs(gap)) ** 2)
        for gap, share in _gaps(difference, margin, level)
        if gap
    ]
    return min(ways, default=None)


def _gaps(difference: float, margin: float, level: float) -> list[tuple[float, float]]:
    """Returns gaps that an interval has to be shorter than, with its level: that of a direction, and that of a tie."""
    tie = [(margin - abs(difference), 2 * level)] if abs(difference) < margin else []
    return [(difference, level), *tie]


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
