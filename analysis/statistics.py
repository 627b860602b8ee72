"""The few statistics that tables need: spread over seeds, intervals, agreement of orders."""

import math
import statistics
from collections.abc import Sequence

import numpy as np
import scipy.stats


def mean_and_sd(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Mean and standard deviation (n - 1 below the line); None where there are too few values for it."""
    if not values:
        return None, None
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def t_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float] | None:
    """Student's interval of the mean; None for fewer than two values."""
    mean, sd = mean_and_sd(values)
    if mean is None or sd is None:
        return None
    half = float(scipy.stats.t.ppf(0.5 + confidence / 2, len(values) - 1)) * sd / math.sqrt(len(values))
    return mean - half, mean + half


def bootstrap_interval(
    values: Sequence[float], generator: np.random.Generator, confidence: float = 0.95, draws: int = 10_000
) -> tuple[float, float]:
    """Percentile interval of the mean over resamples drawn by `generator`; needs at least one value."""
    sample = np.asarray(values, dtype=float)
    assert sample.ndim == 1 and sample.size > 0
    means = sample[generator.integers(sample.size, size=(draws, sample.size))].mean(axis=1)
    low, high = np.quantile(means, [0.5 - confidence / 2, 0.5 + confidence / 2])
    return float(low), float(high)


def kendall_tau(left: Sequence[float], right: Sequence[float]) -> tuple[float, float]:
    """Kendall's tau-b of two orders of the same things, and its p value; NaN where one side is constant."""
    assert len(left) == len(right)
    found = scipy.stats.kendalltau(left, right)
    return float(found.statistic), float(found.pvalue)
