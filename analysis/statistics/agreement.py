"""Agreement of seeds on the order of a table's rows: Kendall's W, with seeds as judges.

A seed that shifts all rows equally widens the interval of every mean, and leaves the order within the seed as it is.
Shape suffixes: S seeds, R rows, D draws.
"""

from dataclasses import dataclass

import numpy as np
import scipy

AGREEMENT_DRAWS = 4000
ROWS_NEEDED = 3
SEEDS_TO_AGREE = 2


@dataclass(frozen=True)
class Concordance:
    """Agreement of seeds on the order of rows."""

    w: float
    """Kendall's W: 1 where every seed has the same order, about 1 / seeds where orders are drawn at random."""
    p: float
    """Share of random tables, with rows shuffled within each seed, that reach Kendall's W."""
    seeds: int
    rows: int
    rho: float
    """Intraclass correlation of rows over seeds: the part of a seed's effect that all rows share."""


def concordance(
    values_SR: np.ndarray, generator: np.random.Generator, draws: int = AGREEMENT_DRAWS
) -> Concordance | None:
    """Returns Kendall and Babington Smith's W (1939), corrected for ties, with a permutation p value, as seeds are
    few.

    `values_SR` holds float64 [seeds, rows]. None with fewer than two seeds or three rows, and where every seed has all
    rows equal.
    """
    if values_SR.ndim != 2 or len(values_SR) < SEEDS_TO_AGREE or values_SR.shape[1] < ROWS_NEEDED:
        return None
    seeds, rows = values_SR.shape
    centred_SR = scipy.stats.rankdata(values_SR, axis=1) - (rows + 1) / 2
    largest = seeds * np.square(centred_SR).sum()
    if largest == 0:
        return None
    observed = np.square(centred_SR.sum(axis=0)).sum()
    shuffled_DSR = generator.permuted(np.broadcast_to(centred_SR, (draws, seeds, rows)), axis=2)
    # Sums of equal orders differ by rounding, so that they are compared with a tolerance.
    reached = np.square(shuffled_DSR.sum(axis=1)).sum(axis=1) >= observed - 1e-9 * largest
    # The measured order counts as one of the draws, so that p is never 0.
    return Concordance(
        float(observed / largest), (1 + int(reached.sum())) / (1 + draws), seeds, rows, correlate_seeds(values_SR)
    )


def correlate_seeds(values_SR: np.ndarray) -> float:
    """Returns the intraclass correlation of rows over seeds [S, R]: at least -1 / (rows - 1), and 0 where nothing
    varies.

    It comes from the two-way analysis of variance: ICC(3,1) of Shrout and Fleiss (1979) with seeds as targets.
    """
    seeds, rows = values_SR.shape
    centred_SR = values_SR - values_SR.mean(axis=0)
    seed_S1 = centred_SR.mean(axis=1, keepdims=True)
    between = rows * float(np.square(seed_S1).sum()) / (seeds - 1)
    within = float(np.square(centred_SR - seed_S1).sum()) / ((seeds - 1) * (rows - 1))
    total = between + (rows - 1) * within
    return (between - within) / total if total > 0 else 0.0
