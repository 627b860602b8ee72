"""Standard error of a difference of two models over the items of a held-out set: its sentence pairs, or its queries.

A score is a statistic of a sample of items, so that two models that are equal over all items differ on any one set.
Each item has an influence on the difference (Hampel 1974), averaged over the seeds of a side; their standard deviation
over the root of their number is the standard error, the infinitesimal jackknife's. Shape suffixes: P pairs, Q queries,
I items.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy
from numpy.typing import NDArray

Array = NDArray[np.float64]
ItemUnit = Literal["pairs", "queries"]


@dataclass(frozen=True)
class ItemError:
    """Spread of the items' influences on a difference, from which follows what another set of items would give."""

    deviation: float
    """Standard deviation (divisor I - 1) of an item's influence on the difference, in the column's units."""
    count: int
    """Number of items, two or more."""
    unit: ItemUnit

    @property
    def error(self) -> float:
        """Standard error of the difference over items, the seeds as they are."""
        return self.deviation / math.sqrt(self.count)

    def half(self, level: float) -> float:
        """Returns half the width of Student's interval over items at a two-sided significance level."""
        return float(scipy.special.stdtrit(self.count - 1.0, 1 - level / 2)) * self.error


def query_error(left: Sequence[Array], right: Sequence[Array]) -> ItemError:
    """Returns the error of a difference of means over queries; each side holds the values [Q] of each of its seeds."""
    return _error_of(np.mean(left, axis=0) - np.mean(right, axis=0), "queries")


def pair_error(left: Sequence[Array], right: Sequence[Array], gold_P: Array) -> ItemError:
    """Returns the error of a difference of Spearman's correlations times 100; each side holds the cosines [P] of each
    of its seeds.

    Cosines and grades are ranked as they are given: round them before. None of them may be constant.
    """
    sides = [np.mean([spearman_influence(cosines_P, gold_P) for cosines_P in side], axis=0) for side in (left, right)]
    return _error_of(sides[0] - sides[1], "pairs")


def _error_of(influence_I: Array, unit: ItemUnit) -> ItemError:
    return ItemError(float(influence_I.std(ddof=1)), len(influence_I), unit)


def spearman_influence(values_P: Array, gold_P: Array) -> Array:
    """Returns each pair's influence on Spearman's correlation times 100, [P]; they sum to 0.

    The correlation is that of mid-distribution functions, so that ties count as in average ranks (Croux and Dehon 2010,
    Statistical Methods and Applications 19(4), section 3, without ties). An item moves the two variances and the
    covariance by its own product, and by the ranks that it lifts in others.
    """
    centred = [(scipy.stats.rankdata(values) - (len(values) + 1) / 2) / len(values) for values in (values_P, gold_P)]
    value_P, grade_P = centred
    covariance_P = value_P * grade_P + _lift(values_P, grade_P) + _lift(gold_P, value_P)
    variances = [rank_P**2 + 2 * _lift(by, rank_P) for by, rank_P in ((values_P, value_P), (gold_P, grade_P))]
    products = (value_P * grade_P).mean(), (value_P**2).mean(), (grade_P**2).mean()
    # Each product is a mean over triples of items: an item's influence is the sum over its three places, less 3 means.
    moved = [part - 3 * product for part, product in zip((covariance_P, *variances), products, strict=True)]
    scale = math.sqrt(products[1] * products[2])
    share = products[0] / scale / 2
    influence_P: Array = 100 * (moved[0] / scale - share * (moved[1] / products[1] + moved[2] / products[2]))
    return influence_P


def _lift(by_P: Array, weights_P: Array) -> Array:
    """Returns for each item the weights of those above it less the weights of those below it, over 2 P; ties count
    0."""
    order_P = np.argsort(by_P, kind="stable")
    sums = np.concatenate([[0.0], np.cumsum(weights_P[order_P])])
    below_P, up_to_P = (np.searchsorted(by_P[order_P], by_P, side) for side in ("left", "right"))
    lift_P: Array = (sums[-1] - sums[up_to_P] - sums[below_P]) / (2 * len(by_P))
    return lift_P
