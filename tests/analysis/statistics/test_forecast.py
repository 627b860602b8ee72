"""Forecasts of the seeds that an undecided difference still needs: how often the stated range holds.

True gains are drawn around 0 with a deviation of a point, differences of two runs with that of SimCSE on BERT-base. An
independent rule of scipy says whether a word falls: Student's test at 5%, and two one-sided tests for a tie.
"""

import numpy as np
import pytest
import scipy.stats

from analysis.statistics.contrasts import Array, Difference
from analysis.statistics.item_error import ItemError
from analysis.statistics.needed import MOST_ITEMS, MOST_SEEDS_NEEDED, forecast_items, forecast_seeds

MARGIN, DEVIATION = 0.5, 1.19


def measure(values_S: Array, items: ItemError | None = None) -> Difference:
    half, tie_half = (
        scipy.stats.t.ppf(1 - level / 2, len(values_S) - 1) * scipy.stats.sem(values_S) for level in (0.05, 0.1)
    )
    counts = (len(values_S), len(values_S))
    variance = float(values_S.var(ddof=1))
    return Difference(float(values_S.mean()), half, tie_half, variance, 1.0, counts, True, 0.05, items)


def is_decided(values_S: Array) -> bool:
    apart = scipy.stats.ttest_1samp(values_S, 0).pvalue < 0.05
    below = scipy.stats.ttest_1samp(values_S, MARGIN, alternative="less").pvalue < 0.05
    above = scipy.stats.ttest_1samp(values_S, -MARGIN, alternative="greater").pvalue < 0.05
    return bool(apart or (below and above))


@pytest.mark.parametrize("cases", [pytest.param(200, id="fast"), pytest.param(2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("seeds", [3, 4, 5, 8])
def test_half_of_the_undecided_are_decided_within_the_stated_range(cases: int, seeds: int) -> None:
    rng, decided = np.random.default_rng(seeds), []
    while len(decided) < cases:
        values = rng.normal(rng.normal(0, 1), DEVIATION, seeds + MOST_SEEDS_NEEDED)
        if not is_decided(values[:seeds]):
            ends = forecast_seeds(measure(values[:seeds]), MARGIN)
            decided.append([more is not None and is_decided(values[: seeds + more]) for more in ends])
    low, median, high = np.mean(decided, axis=0)
    error = np.sqrt(0.25 / cases)
    assert 0.45 - 3 * error <= high - low <= 0.55 + 3 * error, "the half between the two ends"
    assert abs(median - 0.5) <= 0.05 + 3 * error


@pytest.mark.parametrize("cases", [pytest.param(200, id="fast"), pytest.param(2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("count", [200, 1500])
def test_half_of_the_undecided_are_decided_within_the_stated_range_of_items(cases: int, count: int) -> None:
    """Sets of pairs or queries whose difference has an error of half a point; means of many items are drawn as such."""
    rng, decided, deviation = np.random.default_rng(count), [], 0.5 * count**0.5
    while len(decided) < cases:
        truth = rng.normal(0, 1)
        mean, items = rng.normal(truth, 0.5), ItemError(deviation, count, "pairs")
        if not falls(mean, deviation, count):
            ends = forecast_items(mean, MARGIN, 0.05, items)
            words = []
            for more in ends:  # of one future
                total = count + (more or 0)
                rest = rng.normal(truth, deviation / (more or 1) ** 0.5)
                words.append(more is not None and falls((count * mean + (more or 0) * rest) / total, deviation, total))
            decided.append(words)
    low, median, high = np.mean(decided, axis=0)
    error = np.sqrt(0.25 / cases)
    assert 0.45 - 3 * error <= high - low <= 0.55 + 3 * error, "the half between the two ends"
    assert abs(median - 0.5) <= 0.05 + 3 * error


def falls(mean: float, deviation: float, count: int) -> bool:
    """Returns True if Student's test decides on a mean of `count` values with this deviation: told from 0, or a tie."""
    half, tie_half = scipy.stats.t.ppf([0.975, 0.95], count - 1) * deviation / count**0.5
    return bool(abs(mean) > half or abs(mean) + tie_half < MARGIN)


def test_a_forecast_of_items_follows_what_they_say() -> None:
    """An error of 1 over 400 items: 1.9 is nearly told, 0.1 and a wide margin nearly a tie."""
    items = ItemError(20.0, 400, "pairs")
    near, far = (forecast_items(difference, 0.0, 0.05, items) for difference in (1.9, 1.0))
    assert None not in (near[0], near[1], far[0], far[1])
    assert near[:2] < far[:2] and near == forecast_items(-1.9, 0.0, 0.05, items)
    assert forecast_items(0.1, 1.7, 0.05, items)[1] < forecast_items(0.1, 0.5, 0.05, items)[1]  # type: ignore[operator]
    assert all(more is None or more <= MOST_ITEMS * 400 for more in (*near, *far))


def test_a_forecast_follows_what_the_seeds_say() -> None:
    """A larger difference takes fewer seeds, a larger deviation more; one in the middle of the margin is soon a tie."""
    plain = forecast_seeds(measure(np.array([-1.0, 1.0, 3.0, 1.0])), MARGIN)
    larger = forecast_seeds(measure(np.array([0.0, 2.0, 4.0, 2.0])), MARGIN)
    noisier = forecast_seeds(measure(np.array([-4.0, 1.0, 6.0, 1.0])), MARGIN)
    tied = forecast_seeds(measure(np.array([-0.8, 0.8, -0.5, 0.5])), MARGIN)
    assert None not in (*plain, *larger, *tied)
    assert larger < plain < noisier and tied[2] <= 30
    assert plain == forecast_seeds(measure(np.array([1.0, -1.0, -3.0, -1.0])), MARGIN)


def test_what_no_number_of_seeds_decides_has_no_end() -> None:
    """Items leave ±1.97 for any number of seeds: 1 is within it, 2 in half of the futures."""
    items = ItemError(20.0, 400, "pairs")
    low, median, high = forecast_seeds(measure(np.array([0.9, 1.0, 1.1, 1.0]), items), MARGIN)
    assert (low, median, high) == (None, None, None)
    some = forecast_seeds(measure(np.array([1.0, 2.0, 3.0, 2.0]), items), MARGIN)
    assert some[0] is not None and some[2] is None
