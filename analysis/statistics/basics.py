"""Basic statistics of tables: spread over seeds, intervals, and corrections for multiple comparisons."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


def sureness(level: float) -> str:
    """Returns the name of an interval with a given error rate: 0.05 gives `95%`, 0.00004 gives `99.996%`."""
    digits = max(4, 2 + math.ceil(-math.log10(100 * level)))  # never 100%
    return f"{100 * (1 - level):.{digits}g}%"


def mean_and_sd(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Returns the mean and the standard deviation (divisor n - 1) of values; None for each that too few values give."""
    if not values:
        return None, None
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


CONFIDENCE = 0.95
"""Confidence level of every interval."""
NORMAL_QUANTILE = statistics.NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
"""Normal quantile of a two-sided interval; Student's quantile is larger at any degrees of freedom."""


@dataclass(frozen=True)
class Spread:
    """Standard deviation with its degrees of freedom."""

    sd: float
    freedom: float

    def t(self) -> float:
        """Returns Student's quantile for a two-sided interval at CONFIDENCE."""
        import scipy  # takes longer than most tables

        return float(scipy.special.stdtrit(self.freedom, 0.5 + CONFIDENCE / 2))

    def excludes(self, difference: float) -> bool:
        """Returns whether the interval around 0, with `sd` as standard error, leaves a difference out."""
        # The normal quantile is the smaller one: a difference below it needs no scipy.
        return abs(difference) > NORMAL_QUANTILE * self.sd and abs(difference) > self.t() * self.sd


def pool_spreads(spreads: Iterable[Spread]) -> Spread | None:
    """Pools the spreads of several groups, each variance weighted by its degrees of freedom; None without any."""
    parts = list(spreads)
    freedom = sum(part.freedom for part in parts)
    return Spread(math.sqrt(sum(part.freedom * part.sd**2 for part in parts) / freedom), freedom) if freedom else None


def welch(left: Spread, left_n: int, right: Spread, right_n: int) -> Spread:
    """Returns the standard error of a difference of two means and its degrees of freedom (Welch 1947, Satterthwaite).

    At least one standard deviation must be positive.
    """
    parts = [left.sd**2 / left_n, right.sd**2 / right_n]
    error = sum(parts)
    return Spread(math.sqrt(error), error**2 / (parts[0] ** 2 / left.freedom + parts[1] ** 2 / right.freedom))


def holm(p_values: Sequence[float]) -> list[float]:
    """Returns p values corrected for multiple tests (Holm 1979), in their given order."""
    count, corrected, largest = len(p_values), [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(count), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (count - rank) * p_values[index]))
        corrected[index] = largest
    return corrected


def t_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Returns Student's interval of the mean of values; None for fewer than two."""
    mean, sd = mean_and_sd(values)
    if mean is None or sd is None:
        return None
    half = Spread(sd, len(values) - 1).t() * sd / math.sqrt(len(values))
    return mean - half, mean + half
