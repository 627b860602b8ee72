"""The few statistics that tables need: spread over seeds, intervals, agreement of orders."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


def sureness(level: float) -> str:
    """What an interval that may miss so often is called: `95%`."""
    return f"{100 * (1 - level):.4g}%"


def mean_and_sd(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Mean and standard deviation (n - 1 below the line); None where there are too few values for it."""
    if not values:
        return None, None
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


CONFIDENCE = 0.95
"""Of every interval."""
NORMAL_QUANTILE = statistics.NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
"""Student's quantile is above it at any degrees of freedom."""


@dataclass(frozen=True)
class Spread:
    """A standard deviation and how many degrees of freedom it has."""

    sd: float
    freedom: float

    def t(self) -> float:
        """Student's quantile for a two-sided interval."""
        import scipy  # takes longer than most tables

        return float(scipy.special.stdtrit(self.freedom, 0.5 + CONFIDENCE / 2))

    def excludes(self, difference: float) -> bool:
        """Whether a difference with this standard error is beyond its interval around 0."""
        return abs(difference) > NORMAL_QUANTILE * self.sd and abs(difference) > self.t() * self.sd


def pool_spreads(spreads: Iterable[Spread]) -> Spread | None:
    """One spread of several groups that share it, each variance weighted by its degrees of freedom; None of none."""
    parts = list(spreads)
    freedom = sum(part.freedom for part in parts)
    return Spread(math.sqrt(sum(part.freedom * part.sd**2 for part in parts) / freedom), freedom) if freedom else None


def welch(left: Spread, left_n: int, right: Spread, right_n: int) -> Spread:
    """Standard error of a difference of two means and its degrees of freedom (Welch 1947, Satterthwaite's formula).

    Needs one positive standard deviation.
    """
    parts = [left.sd**2 / left_n, right.sd**2 / right_n]
    error = sum(parts)
    return Spread(math.sqrt(error), error**2 / (parts[0] ** 2 / left.freedom + parts[1] ** 2 / right.freedom))


def holm(p_values: Sequence[float]) -> list[float]:
    """P values corrected for being many (Holm 1979), in the order given: reject where at most the wanted level."""
    count, corrected, largest = len(p_values), [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(count), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (count - rank) * p_values[index]))
        corrected[index] = largest
    return corrected


def t_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Student's interval of the mean; None for fewer than two values."""
    mean, sd = mean_and_sd(values)
    if mean is None or sd is None:
        return None
    half = Spread(sd, len(values) - 1).t() * sd / math.sqrt(len(values))
    return mean - half, mean + half
