"""What three seeds of each cell of a recording tell apart, and what cells share through a seed."""

import numpy as np
from scipy.stats import ttest_ind, ttest_rel

from benchmarks.search.replay import Array

SEEDS = 3
"""Seeds of each cell, as a space has them by default."""


def decided(finals: Array, rng: np.random.Generator, pairs: int = 4000) -> tuple[float, float]:
    """Shares of random pairs of cells, SEEDS common seeds each, that Welch's and the paired interval tell apart."""
    chosen = np.array([rng.choice(len(finals), 2, replace=False) for _ in range(pairs)])
    seeds = np.array([rng.choice(finals.shape[1], SEEDS, replace=False) for _ in range(pairs)])
    left, right = (np.take_along_axis(finals[side], seeds, axis=1) for side in chosen.T)
    welch, paired = ttest_ind(left, right, axis=1, equal_var=False), ttest_rel(left, right, axis=1)
    return float(np.mean(welch.pvalue < 0.05)), float(np.mean(paired.pvalue < 0.05))


def seed_effect(finals: Array) -> float:
    """Share of the within-cell variance that all cells have in common through the seed (two-way analysis of variance).

    Above 0, comparing cells on common seeds is worth something; sampling error may put it below.
    """
    cells, seeds = finals.shape
    by_seed = finals.mean(axis=0) - finals.mean()
    rest = finals - finals.mean(axis=1, keepdims=True) - by_seed
    error = float(np.sum(rest**2)) / ((cells - 1) * (seeds - 1))
    common = (cells * float(np.sum(by_seed**2)) / (seeds - 1) - error) / cells
    return common / (common + error)
