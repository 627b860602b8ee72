"""How often the word over seeds and sentences is wrong, and how often it finds a point, on simulated sets.

Two methods are equal over all pairs, and differ on the pairs of one set: a method has an error of its own on each pair,
which its seeds share. An independent rule stands beside the judge's: a jackknife over 50 blocks of pairs, joined with
the seeds' variance by Satterthwaite's degrees of freedom.
"""

import math

import numpy as np
import pytest
import scipy.stats

from analysis.answers.judge import Sides, Terms, judge_models
from analysis.statistics.contrasts import Array
from analysis.statistics.item_error import ItemError, pair_error, query_error
from analysis.tables.columns import entry_of

OWN, BLOCKS = 0.18, 50
QUALITY = {0.84: 0.03, 0.21: 0.008}
"""Deviation of a seed's score in points -> deviation of its quality in the simulation."""


def correlate(values_SP: Array, gold_P: Array) -> Array:
    """Spearman's correlation times 100 of each row."""
    ranks_SP, grades_P = scipy.stats.rankdata(values_SP, axis=-1), scipy.stats.rankdata(gold_P)
    ranks_SP, grades_P = ranks_SP - ranks_SP.mean(-1, keepdims=True), grades_P - grades_P.mean()
    return np.asarray(100 * (ranks_SP @ grades_P) / np.sqrt((ranks_SP**2).sum(-1) * (grades_P**2).sum()))


def draw(rng: np.random.Generator, seeds: int, pairs: int, quality: float, gain: float) -> tuple[Array, Array, Array]:
    """Cosines of both methods [S, P], and grades; `gain` lowers the first method's noise."""
    truth = rng.normal(size=pairs)
    sides = []
    for less in (gain, 0.0):
        own, noise = OWN * rng.normal(size=pairs), rng.normal(size=pairs)
        spread = np.abs(0.45 + quality * rng.normal(size=(seeds, 1)) - less)
        sides.append(truth + own + spread * (0.8 * noise + 0.6 * rng.normal(size=(seeds, pairs))))
    return sides[0], sides[1], truth + 0.55 * rng.normal(size=pairs)


def judged(left_S: Array, right_S: Array, items: ItemError) -> str:
    a, b = (entry_of(dict(enumerate(map(float, values_S)))) for values_S in (left_S, right_S))
    return str(judge_models({"a": Sides(a, b, items=items)}, Terms())["a"].word)


def jackknifed(left_SP: Array, right_SP: Array, gold_P: Array, rng: np.random.Generator) -> bool:
    """Whether the independent rule tells the two methods apart."""
    difference_S = correlate(left_SP, gold_P) - correlate(right_SP, gold_P)
    seeds = difference_S.var(ddof=1) / len(difference_S)
    without = []
    for block in np.array_split(rng.permutation(len(gold_P)), BLOCKS):
        kept = np.setdiff1d(np.arange(len(gold_P)), block, assume_unique=True)
        both = (correlate(side_SP[:, kept], gold_P[kept]).mean() for side_SP in (left_SP, right_SP))
        without.append(next(both) - next(both))
    items = (BLOCKS - 1) * np.var(without)
    freedom = (seeds + items) ** 2 / (seeds**2 / (len(difference_S) - 1) + items**2 / (BLOCKS - 1))
    return bool(abs(difference_S.mean()) > scipy.stats.t.ppf(0.975, freedom) * math.sqrt(seeds + items))


@pytest.mark.slow
@pytest.mark.parametrize("pairs", [200, 1500])
@pytest.mark.parametrize("deviation", QUALITY)
@pytest.mark.parametrize("seeds", [5, 12, 50])
def test_methods_that_are_equal_over_all_pairs_are_rarely_told_apart(pairs: int, deviation: float, seeds: int) -> None:
    """400 sets: at most 5% and three standard errors; the jackknife, on 60 of them, agrees in nine words of ten."""
    rng, count, rows = np.random.default_rng([pairs, seeds]), 400, []
    for case in range(count):
        left, right, gold = draw(rng, seeds, pairs, QUALITY[deviation], 0.0)
        word = judged(correlate(left, gold), correlate(right, gold), pair_error(list(left), list(right), gold))
        told = word in ("better", "worse")
        rows.append((told, case >= 60 or told == jackknifed(left, right, gold, rng)))
    wrong, agreed = np.mean(rows, axis=0)
    print(f"{pairs} pairs, deviation {deviation}, {seeds} seeds: wrong {100 * wrong:.1f}% of {count}")
    assert wrong <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / count) and agreed >= 1 - 0.1 * 60 / count


@pytest.mark.slow
@pytest.mark.parametrize(("seeds", "deviation"), [(5, 0.84), (12, 0.84), (50, 0.21)])
def test_methods_that_are_equal_over_all_queries_are_rarely_told_apart(seeds: int, deviation: float) -> None:
    """2,000 sets of 200 queries; a method's own error is 6 points a query, a seed's 20, its quality `deviation`."""
    rng, count, wrong, found = np.random.default_rng(seeds), 2000, 0, 0
    for _ in range(count):
        own = 6 * rng.normal(size=(2, 1, 200))
        values = 50 + own + deviation * rng.normal(size=(2, seeds, 1)) + 20 * rng.normal(size=(2, seeds, 200))
        for gain in (0.0, 1.0):
            left, right = values[0] + gain, values[1]
            word = judged(left.mean(axis=1), right.mean(axis=1), query_error(list(left), list(right)))
            wrong += word in ("better", "worse") if not gain else 0
            found += word == "better" if gain else 0
    print(f"200 queries, {seeds} seeds: wrong {100 * wrong / count:.1f}%, +1.0 found {100 * found / count:.1f}%")
    assert wrong / count <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / count)
