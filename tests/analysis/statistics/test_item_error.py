"""The error of a difference over sentence pairs or queries, by hand, by scipy and by jackknife; joined with seeds."""

import math

import numpy as np
import pytest
import scipy.stats

from analysis.statistics.contrasts import Array, Difference, differences
from analysis.statistics.item_error import ItemError, pair_error, query_error, spearman_influence
from analysis.statistics.needed import seeds_needed


def test_queries_and_seeds_by_hand() -> None:
    """Three seeds and four queries, docs/verdicts.md.

    Differences by seed are 1, 2 and 3: 2 in the mean, deviation 1, half width 4.303 / sqrt(3) = 2.484. Differences by
    query are -1, 1, 3 and 5: deviation 2.582, error 1.291, half width 3.182 * 1.291 = 4.108. Both: 4.801.
    """
    items = query_error([np.array([0.0, 2.0, 4.0, 6.0]), np.array([0.0, 2.0, 4.0, 6.0])], [np.ones(4)])
    assert items.deviation == pytest.approx(2.582, abs=5e-4) and items.error == pytest.approx(1.291, abs=5e-4)
    seeds = differences(np.array([[51.0, 52.0, 53.0], [50.0, 50.0, 50.0]]), 1, point=1.0, level=0.05, margin=0.5)[0]
    joined = seeds.joined(items)
    assert (seeds.half, items.half(0.05)) == pytest.approx((2.484, 4.1085), abs=5e-4)
    assert joined.half == pytest.approx(4.801, abs=5e-4) and joined.value == 2.0 and joined.items == items
    assert joined.tie_half == pytest.approx(math.hypot(2.920 / math.sqrt(3), 2.353 * 1.291), abs=1e-3)


def jackknifed(left: list[Array], right: list[Array], gold: Array) -> float:
    """Delete-one jackknife's error of the difference of two sides' mean correlations, by scipy."""

    def mean_of(side: list[Array], keep: Array) -> float:
        return float(np.mean([scipy.stats.spearmanr(values[keep], gold[keep]).statistic for values in side]))

    kept = [np.delete(np.arange(len(gold)), place) for place in range(len(gold))]
    without = np.array([100 * (mean_of(left, keep) - mean_of(right, keep)) for keep in kept])
    return float(np.sqrt((len(gold) - 1) * without.var()))


@pytest.mark.parametrize("decimals", [9, 0])
def test_pairs_are_those_of_the_jackknife_with_ties_too(decimals: int) -> None:
    rng = np.random.default_rng(4)
    truth = rng.normal(size=300)
    gold = np.round(truth + rng.normal(size=300) / 2, decimals)
    left, right = (
        [np.round(truth + noise * rng.normal(size=300), min(decimals, 1)) for _ in range(2)] for noise in (0.6, 0.3)
    )
    items = pair_error(left, right, gold)
    assert items.error == pytest.approx(jackknifed(left, right, gold), rel=0.01)
    assert (items.count, items.unit) == (300, "pairs")
    assert abs(spearman_influence(left[0], gold).sum()) < 1e-9


def test_an_influence_is_the_slope_of_the_correlation_in_a_pairs_weight() -> None:
    """A pair that is there 21 times in place of 20 moves the correlation by its influence / 20 P."""
    rng = np.random.default_rng(5)
    values, gold = rng.normal(size=12).round(1), rng.integers(0, 4, size=12).astype(float)
    repeated = [np.repeat(each, 1000) for each in (values, gold)]
    base = 100 * scipy.stats.spearmanr(*repeated).statistic
    for place, influence in enumerate(spearman_influence(values, gold)):
        moved = [np.append(each, each[1000 * place]) for each in repeated]
        slope = 12000 * (100 * scipy.stats.spearmanr(*moved).statistic - base)
        assert slope == pytest.approx(influence, rel=0.01, abs=0.05)


def test_equal_sides_have_no_error() -> None:
    values, gold = np.array([1.0, 3.0, 2.0, 4.0]), np.arange(4.0)
    assert pair_error([values], [values], gold).half(0.05) == 0.0


@pytest.mark.parametrize("level", [0.05, 0.01])
@pytest.mark.parametrize("seeds", [2, 3, 5, 12])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
def test_a_joined_interval_misses_at_most_as_often_as_its_level(seeds: int, share: float, level: float) -> None:
    """Seeds' and items' variances are drawn as such; `share` of the true variance is that of seeds."""
    rng = np.random.default_rng(6)
    count = 4000
    error = rng.normal(size=count)
    half = np.sqrt(share * rng.chisquare(seeds - 1, count) / (seeds - 1)) * scipy.stats.t.ppf(1 - level / 2, seeds - 1)
    deviation = np.sqrt((1 - share) * rng.chisquare(199, count) / 199 * 200)
    missed = [
        abs(one) > Difference(one, width, width, 1.0, 1.0, (seeds, seeds), True, level).joined(
            ItemError(spread, 200, "queries")).half
        for one, width, spread in zip(error, half, deviation, strict=True)
    ]  # fmt: skip
    assert np.mean(missed) <= level + 3 * math.sqrt(level / count)


def test_later_looks_wait_for_the_joined_interval() -> None:
    """Seeds alone would decide at the first look; with the items the second one does."""
    values = np.array([[52.0, 52.1, 51.9, 53.0, 53.1, 52.9], [50.0] * 6])
    items = ItemError(20.0, 400, "pairs")
    alone, joined = (
        differences(values, 1, point=1.0, level=0.025, margin=0.5, interim_analyses=[3, 6], items=each)[0]
        for each in (None, items)
    )
    assert (alone.count, joined.count) == (3, 6) and joined.sign == 1


def test_seeds_that_are_needed_grow_with_the_items_error_until_none_are_enough() -> None:
    few, more, hopeless = (ItemError(deviation, 400, "pairs") for deviation in (2.0, 6.0, 20.0))
    counts = [seeds_needed(1.0, 1.0, 1, 0.05, items) for items in (None, few, more, hopeless)]
    assert counts[0] is not None and counts[1] is not None and counts[2] is not None and counts[3] is None
    assert counts[0] <= counts[1] < counts[2]
