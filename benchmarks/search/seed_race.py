"""Seed racing against equal seeds for every cell, on scores drawn from a recording.

Five recorded seeds cannot both be handed out up to ten times and be the truth, so scores are drawn anew: a cell's truth
is its recorded mean, a score is that plus one of the cell's own recorded residuals, widened by sqrt(S / (S - 1)). What
cells share through a seed is lost by that, and measured apart (`seed_effect`).
"""

import numpy as np
from scipy.special import ndtr
from scipy.stats import ttest_ind, ttest_rel

from benchmarks.search.replay import Array
from cluster.search.seed_race import Standing, next_cell

START, FIXED, MOST = 2, 3, 10
"""Seeds of every cell before the race, of the peer, and of one cell at most."""


def correct_orders(finals: Array, rng: np.random.Generator) -> tuple[float, float, int]:
    """Share of pairs in the right order after a race and after FIXED seeds each, and the race's runs; finals [C, S]."""
    truth, cells = finals.mean(axis=1), len(finals)
    scores = drawn(finals, rng)
    counts = np.full(cells, START)
    for _ in range(cells * (FIXED - START)):
        standings = [Standing(tuple(row[:n]), int(n)) for row, n in zip(scores, counts, strict=True)]
        chosen = next_cell(standings, MOST)
        if chosen is None:
            break
        counts[chosen] += 1
    raced = np.array([row[:n].mean() for row, n in zip(scores, counts, strict=True)])
    return _share(raced, truth), _share(scores[:, :FIXED].mean(axis=1), truth), int(counts.sum())


def informed_orders(finals: Array, rng: np.random.Generator) -> float:
    """Share of pairs in the right order after a race that knows each cell's seed noise: what no race can know."""
    scores, variance, cells = drawn(finals, rng), finals.var(axis=1, ddof=1), len(finals)
    counts, means = np.full(cells, float(START)), scores[:, :START].mean(axis=1)
    for _ in range(cells * (FIXED - START)):
        gains = _wrong(means, variance, counts, counts) - _wrong(means, variance, counts + 1, counts)
        chosen = int(np.argmax(np.where(counts < MOST, gains, -1.0)))
        counts[chosen] += 1
        means[chosen] = scores[chosen, : int(counts[chosen])].mean()
    return _share(means, finals.mean(axis=1))


def _wrong(means: Array, variance: Array, counts: Array, others: Array) -> Array:
    """[C]: expected number of cells that stand on the wrong side of each."""
    spread = np.sqrt((variance / counts)[:, None] + variance / others)
    found = ndtr(-np.abs(means[:, None] - means) / np.maximum(spread, 1e-12))
    np.fill_diagonal(found, 0.0)
    return np.asarray(found.sum(axis=1))


def drawn(finals: Array, rng: np.random.Generator) -> Array:
    """[C, MOST] scores of one repetition."""
    seeds = finals.shape[1]
    truth = finals.mean(axis=1, keepdims=True)
    residuals = (finals - truth) * np.sqrt(seeds / (seeds - 1))
    return truth + np.take_along_axis(residuals, rng.integers(seeds, size=(len(finals), MOST)), axis=1)


def _share(means: Array, truth: Array) -> float:
    upper = np.triu_indices(len(truth), 1)
    return float(np.mean((np.sign(means[:, None] - means) == np.sign(truth[:, None] - truth))[upper]))


def decided(finals: Array, rng: np.random.Generator, pairs: int = 4000) -> tuple[float, float]:
    """Shares of random pairs of cells, FIXED common seeds each, that Welch's and the paired interval tell apart."""
    chosen = np.array([rng.choice(len(finals), 2, replace=False) for _ in range(pairs)])
    seeds = np.array([rng.choice(finals.shape[1], FIXED, replace=False) for _ in range(pairs)])
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
