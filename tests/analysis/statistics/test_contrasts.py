"""Contrasts with a reference row: Student's t by hand, a plain loop, and how often a table is called wrong."""

import math
import statistics

import numpy as np
import pytest
import scipy.stats

from analysis.statistics.contrasts import VARIANCE_FLOOR, contrasts, prior_freedom
from analysis.statistics.looks import level


def test_two_rows_are_students_paired_t() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(20, 2, 5))
    made = contrasts(values, 1)
    for table, (one, other) in enumerate(values):
        interval = scipy.stats.ttest_rel(one, other).confidence_interval(0.95)
        middle, half = made.difference[table, 0], made.half(0.05)[table, 0]
        assert (middle - half, middle + half) == pytest.approx((interval.low, interval.high), abs=1e-12)


def test_a_seed_that_moves_every_row_moves_no_contrast() -> None:
    rng = np.random.default_rng(1)
    values, seeds = rng.normal(size=(3, 6, 4)), rng.normal(size=(3, 1, 4))
    before, after = contrasts(values, 2), contrasts(values + 50 * seeds, 2)
    assert after.difference == pytest.approx(before.difference + 0.0, abs=1e-9)
    assert after.half(0.01) == pytest.approx(before.half(0.01), abs=1e-9)


def looped(rows: list[list[float]], reference: int) -> list[tuple[float, float, float]]:
    """Difference, variance and degrees of freedom of every contrast, one number after the other."""
    apart = [[a - b for a, b in zip(row, rows[reference], strict=True)] for i, row in enumerate(rows) if i != reference]
    freedom, count = len(rows[0]) - 1, len(apart)
    own = [statistics.variance(row) for row in apart]
    centred = [[value - statistics.fmean(row) for value in row] for row in apart]
    by_seed = [statistics.fmean(column) for column in zip(*centred, strict=True)]
    common = sum(value**2 for value in by_seed) / freedom
    left = sum((value - by_seed[s]) ** 2 for row in centred for s, value in enumerate(row)) / freedom / count
    table = common + left
    known = table**2 / (common**2 / freedom + left**2 / ((count - 1) * freedom))
    logs = [math.log(max(v, VARIANCE_FLOOR * table)) for v in own]
    prior = _inverse_trigamma(statistics.variance(logs) - float(scipy.special.polygamma(1, freedom / 2)))
    made = []
    for i, row in enumerate(apart):
        others = statistics.fmean(own[:i] + own[i + 1 :])
        noisy = own[i] > others * scipy.stats.f.ppf(0.9, freedom, max(known, freedom))
        borrowed = 0.0 if noisy else min(prior, known - freedom, freedom)
        total = borrowed + freedom
        made.append((statistics.fmean(row), (borrowed * table + freedom * own[i]) / total, total))
    return made


def _inverse_trigamma(wanted: float) -> float:
    """Degrees of freedom d with trigamma(d / 2) = wanted, at most 1e4, by halving."""
    low, high = 0.1, 1e4
    for _ in range(80):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if scipy.special.polygamma(1, middle / 2) > wanted else (low, middle)
    return low


@pytest.mark.parametrize("noisy", [1.0, 8.0])
def test_a_plain_loop_gives_the_same(noisy: float) -> None:
    rng = np.random.default_rng(2)
    values = rng.normal(size=(30, 6, 4)) * np.array([1, 1, noisy, 1, 1, 1])[:, None]
    made = contrasts(values, 3)
    for table, rows in enumerate(values.tolist()):
        for place, (difference, variance, freedom) in enumerate(looped(rows, 3)):
            assert made.difference[table, place] == pytest.approx(difference)
            assert made.freedom[table, place] == pytest.approx(freedom, rel=2e-3)
            assert made.variance[table, place] == pytest.approx(variance, rel=2e-3)


def test_missing_seeds() -> None:
    """A row with two of four seeds is compared on those; one with none is not, and the others do not notice."""
    values = np.random.default_rng(3).normal(size=(1, 5, 4))
    values[0, 1, 2:] = np.nan
    values[0, 4] = np.nan
    made, whole = contrasts(values, 0), contrasts(values[:, [0, 2, 3]], 0)
    assert made.seeds.tolist() == [[2, 4, 4, 0]]
    assert made.difference[0, 0] == pytest.approx((values[0, 1, :2] - values[0, 0, :2]).mean())
    assert np.isnan([made.difference[0, 3], made.variance[0, 3]]).all()
    assert made.difference[0, 1:3] == pytest.approx(whole.difference[0])
    assert contrasts(values[:, :, :1], 0).variance[0, 1:3] == pytest.approx([np.nan, np.nan], nan_ok=True)


def test_equal_variances_are_a_strong_prior_and_unequal_ones_a_weak_one() -> None:
    own, freedom, table = np.array([[1.0, 1, 1], [0.1, 1, 40]]), np.full((2, 3), 4.0), np.array([1.0, 14])
    strong, weak = prior_freedom(own, freedom, table)
    assert strong == pytest.approx(1e4) and weak < 1


@pytest.mark.parametrize("deviations", [[1] * 8, [3] + [1] * 7, [1, *np.geomspace(0.5, 2, 7)]])
def test_equal_rows_are_rarely_told_apart(deviations: list[float]) -> None:
    """3,000 tables of 3 seeds with rho 0.5: at most 5.8% with any contrast, two standard errors above 5%."""
    rng = np.random.default_rng(4)
    noise = math.sqrt(0.5) * rng.normal(size=(3000, 1, 3)) + math.sqrt(0.5) * rng.normal(size=(3000, 8, 3))
    made = contrasts(noise * np.array(deviations)[:, None], 0)
    assert (np.abs(made.difference) > made.half(level(7))).any(axis=1).mean() <= 0.058
