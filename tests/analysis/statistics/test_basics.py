"""Statistics of seeds and rows, by hand, against scipy, by plain loops and by simulation."""

import itertools
import math
import statistics
from typing import Any

import numpy as np
import pytest
import scipy.stats

from analysis.statistics.basics import Spread, mean_and_sd, sureness, t_interval
from analysis.statistics.collapse import comparable, find_collapsed
from analysis.statistics.contrasts import VARIANCE_FLOOR, contrasts, prior_freedom
from analysis.statistics.importance import importance
from analysis.statistics.leave_one_out import leave_one_out
from analysis.statistics.looks import LOOKS, NOMINAL, level, looks_until
from analysis.statistics.needed import expect_seeds, seeds_needed


def test_mean_and_sd() -> None:
    assert mean_and_sd([]) == (None, None)
    assert mean_and_sd([3.0]) == (3.0, None)
    mean, sd = mean_and_sd([2.0, 4.0, 9.0])
    assert mean == 5.0 and sd == pytest.approx(math.sqrt(13))


@pytest.mark.parametrize("freedom", [1.0, 4.0, 7.3, 1e6])
def test_a_difference_is_beyond_the_interval_where_students_quantile_says_so(freedom: float) -> None:
    error = Spread(2.0, freedom)
    for share in (0.5, 0.97, 0.999, 1.001, 3.0):
        assert error.excludes(share * error.t() * error.sd) == (share > 1)


def test_means_that_are_close_need_no_quantile(monkeypatch: pytest.MonkeyPatch) -> None:
    """SciPy's takes longer to import than most tables to make."""
    monkeypatch.setattr(Spread, "t", lambda error: pytest.fail("asked for"))
    assert not Spread(1.0, 3.0).excludes(1.9)


def test_t_interval_of_three_seeds() -> None:
    """t(0.975, 2 degrees of freedom) = 4.30265."""
    assert t_interval([1.0]) is None
    interval = t_interval([9.0, 10.0, 11.0])
    assert interval == pytest.approx((10 - 4.30265 / math.sqrt(3), 10 + 4.30265 / math.sqrt(3)), abs=1e-4)


def test_by_hand() -> None:
    """Paired t at 5%, sd 1: 3 seeds reach (4.3027 + 1.0607) / sqrt(3) = 3.097, 4 (3.1824 + 0.9785) / 2 = 2.080."""
    assert [seeds_needed(gap, 1.0, 1, 0.05) for gap in (3.10, -3.09, 2.09, 2.08)] == [3, 4, 4, 5]
    assert seeds_needed(0.01, 1.0, 1, 0.05) is None


def test_that_many_seeds_decide_in_four_of_five_tables() -> None:
    seeds = seeds_needed(1.0, 1.0, 1, 0.05)
    assert seeds is not None
    drawn = np.random.default_rng(0).normal(1.0, 1.0, (4000, seeds))
    assert (scipy.stats.ttest_1samp(drawn, 0, axis=1).pvalue < 0.05).mean() == pytest.approx(0.8, abs=0.03)


def test_levels() -> None:
    assert level(1) == 0.05 and level(7) == 0.05 / 7 and level(7, columns=2) == 0.05 / 14
    assert level(7, interim_analyses=LOOKS) == 0.015 / 7
    assert all(looks * one >= 0.05 - 1e-3 for looks, one in NOMINAL.items() if looks > 1)


def test_looks_until() -> None:
    assert [looks_until(most) for most in (3, 4, 8, 12, 20)] == [(3,), (3, 4), (3, 5, 8), (3, 5, 8, 12), (3, 5, 8, 20)]


def test_expected_seeds_are_those_of_the_first_look_that_decides() -> None:
    """A row 100 points away is told at 3; one that equals the reference is open to the end, or a tie where quiet."""
    far, equal, quiet = (
        expect_seeds(np.array(means), 0, deviation, 0.5, 1, LOOKS)
        for means, deviation in (([0.0, 100.0, -100.0], 1.0), ([0.0, 100.0, 0.0], 3.0), ([0.0, 100.0, 0.0], 1e-3))
    )
    assert far == pytest.approx([3, 3, 3])
    assert equal[1] < 5 and equal[0] > 11 and equal[2] > 11
    assert quiet == pytest.approx([3, 3, 3])


FULL = {0: 60.0, 1: 62.0, 2: 61.0}


def test_common_seeds_are_paired() -> None:
    """Differences -1, -3, -2: mean -2, t(2) = 4.3027, half-width 4.3027 / sqrt(3)."""
    (one,) = leave_one_out(FULL, {"w/o queue": {0: 59.0, 1: 59.0, 2: 59.0}})
    assert (one.n, one.mean, one.sd, one.difference, one.by) == (3, 59.0, 0.0, -2.0, "paired, 3 seeds")
    assert one.interval == pytest.approx((-2 - 2.48414, -2 + 2.48414), abs=1e-5)


def test_other_seeds_go_by_welch() -> None:
    other = {5: 58.0, 6: 61.0}
    (one,) = leave_one_out(FULL, {"w/o queue": other})
    known = scipy.stats.ttest_ind(list(other.values()), list(FULL.values()), equal_var=False)
    interval = known.confidence_interval()
    assert one.difference == pytest.approx(-1.5) and one.by == "Welch, 2 and 3 seeds"
    assert one.interval == pytest.approx((interval.low, interval.high))


def test_the_greatest_loss_stands_first_and_the_unknown_last() -> None:
    found = leave_one_out(FULL, {"none": {}, "gain": {0: 63.0}, "loss": {0: 50.0}, "small": {0: 59.5}})
    assert [one.label for one in found] == ["loss", "small", "gain", "none"]
    assert [one.difference for one in found] == [-11.0, -1.5, 2.0, None]
    assert all(one.interval is None for one in found)
    assert leave_one_out({}, {"x": {0: 1.0, 1: 2.0}})[0].difference is None


def test_equal_values_on_both_sides_have_no_interval_by_welch() -> None:
    assert leave_one_out({0: 1.0, 1: 1.0}, {"x": {2: 2.0, 3: 2.0}})[0].interval is None


STEADY = [56.0, 56.3, 55.8, 56.1, 56.2]


def fallen(*rows: list[float], point: float = 1.0) -> list[list[int]]:
    return [list(np.flatnonzero(row)) for row in find_collapsed(np.array([rows], dtype=float), point)[0]]


def test_far_below_the_rows_others() -> None:
    assert fallen(STEADY, [56.0, 55.0, 56.1, 20.0, 55.5]) == [[], [3]]
    assert fallen(STEADY, [56.0, 19.0, 56.1, 20.0, 55.5]) == [[], [1, 3]]
    assert fallen(STEADY, [56.0, 55.0, 56.1, 46.1, 55.5]) == [[], []], "within 10 points"
    assert fallen(STEADY, [56.0, 55.0, 56.1, 80.0, 55.5]) == [[], []], "above is no collapse"
    assert fallen(STEADY, [20.0, 19.0, 20.5, 56.0, 55.5]) == [[], []], "more than half: nobody knows which is right"
    assert fallen([56.0, 20.0], [55.0, 56.0]) == [[], []], "nor of two seeds"


def test_a_row_that_is_noisy_all_over_has_none() -> None:
    assert fallen(STEADY, [20.0, 40.0, 70.0, 55.0, 61.0]) == [[], []]
    assert fallen([40.0, 60, 80], [10.0, 70, 71], [30.0, 55, 90], [90.0, 40, 60]) == [[], [], [], []]


def test_other_units() -> None:
    small = [[value / 100 for value in row] for row in (STEADY, [56.0, 55.0, 56.1, 20.0, 55.5])]
    assert fallen(*small) == [[], []] and fallen(*small, point=0.01) == [[], [3]]


def test_what_is_left_to_compare() -> None:
    """Of five seeds four are left, of three none; a reference of three keeps all. A missing seed stays missing."""
    five = np.array([[STEADY, [56.0, 55.0, 56.1, 20.0, np.nan], [56.0, 55.0, 56.1, 20.0, 55.5]]])
    assert np.isfinite(comparable(five, 0)).sum(axis=2).tolist() == [[5, 0, 4]]
    three = np.array([[STEADY[:3], [56.0, 55.9, 20.0]]])
    assert np.isfinite(comparable(three, 0)).sum(axis=2).tolist() == [[3, 0]]
    assert np.isfinite(comparable(three, 1)).sum(axis=2).tolist() == [[3, 3]]


@pytest.mark.parametrize("deviation", [1.0, 20.0])
def test_noise_alone_rarely_collapses(deviation: float) -> None:
    """2,000 rows of five seeds: none at sd 1; at most 1 in 100 at sd 20, ten points apart as they are."""
    values = np.random.default_rng(0).normal(50, deviation, (500, 4, 5))
    assert find_collapsed(values).any(axis=2).mean() <= (0.0 if deviation == 1 else 0.01)


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


def grid(*sizes: int, seeds: int) -> list[dict[str, Any]]:
    return [
        dict(zip("ab", place, strict=False)) for place in itertools.product(*map(range, sizes)) for _ in range(seeds)
    ]


def test_a_two_by_two_grid_by_hand() -> None:
    # Cell means 1, 3, 5, 7; two seeds each at +-0.5. Grand mean 4, total 8 * 5 + 8 * 0.25 = 42.
    # Main effect of a: 8 * 2**2 = 32; of b: 8 * 1**2 = 8; within cells: 8 * 0.25 = 2; no interaction.
    scores = [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5]
    found = importance(grid(2, 2, seeds=2), scores, ["a", "b"])
    assert found is not None and found.balanced and found.runs == 8
    assert [one.share for one in found.axes] == pytest.approx([32 / 42, 8 / 42])
    assert found.seeds == pytest.approx(2 / 42) and found.rest == pytest.approx(0, abs=1e-12)
    noise, upper = 2 / 4, scipy.stats.f.ppf(0.95, 1, 4)
    assert [one.floor for one in found.axes] == pytest.approx([noise * upper / 42] * 2)
    assert found.axes[1].p == pytest.approx(scipy.stats.f.sf(8 / noise, 1, 4))


def test_interactions_are_nobody_s() -> None:
    found = importance(grid(2, 2, seeds=2), [1.0, 1.1, -1.0, -1.1, -1.0, -1.1, 1.0, 1.1], ["a", "b"])
    assert found is not None and found.rest is not None
    assert [one.share for one in found.axes] == pytest.approx([0, 0], abs=1e-12) and found.rest > 0.99


def test_one_axis_gives_scipy_s_analysis_of_variance() -> None:
    generator = np.random.default_rng(3)
    groups = [generator.normal(mean, 1.0, size) for mean, size in ((0.0, 4), (0.5, 7), (1.0, 3))]
    keys = [{"a": number} for number, group in enumerate(groups) for _ in group]
    found = importance(keys, np.concatenate(groups).tolist(), ["a"])
    assert found is not None
    assert found.axes[0].p == pytest.approx(scipy.stats.f_oneway(*groups).pvalue)


def test_seeds_alone_pass_the_floor_once_in_twenty_times() -> None:
    generator, keys = np.random.default_rng(0), grid(4, 3, seeds=3)
    passed = 0
    for _ in range(400):
        found = importance(keys, generator.normal(size=len(keys)).tolist(), ["a", "b"])
        assert found is not None
        passed += sum(one.share > (one.floor or 0) for one in found.axes)
    assert 0.03 < passed / 800 < 0.075  # 0.05 +- 3 standard errors of 800 draws


def test_an_axis_that_another_determines_has_no_share_of_its_own() -> None:
    keys = [{"a": value, "b": value * 10} for value in (0, 0, 1, 1)]
    found = importance(keys, [1.0, 2.0, 5.0, 6.0], ["a", "b"])
    assert found is not None and not found.balanced
    assert [(one.share, one.floor) for one in found.axes] == [(pytest.approx(0, abs=1e-9), None)] * 2


def test_without_repeated_cells_there_is_no_floor() -> None:
    found = importance(grid(3, seeds=1), [1.0, 2.0, 3.0], ["a"])
    assert found is not None and found.seeds is None and found.axes[0].floor is None


def test_many_numbers_are_cut_into_quarters_and_words_are_not() -> None:
    generator = np.random.default_rng(1)
    rates = generator.uniform(size=40)
    keys = [{"a": float(rate), "b": "xy"[i % 2]} for i, rate in enumerate(rates)]
    found = importance(keys, rates.tolist(), ["a", "b"])
    assert found is not None and [one.levels for one in found.axes] == [4, 2]
    assert found.axes[0].share > 0.8


def test_what_does_not_vary_has_no_importance() -> None:
    assert importance([], [], ["a"]) is None
    assert importance(grid(2, seeds=2), [1.0] * 4, ["a"]) is None
    assert importance([{"a": 1}] * 3, [1.0, 2.0, 3.0], ["a"]) is None


@pytest.mark.parametrize(("share", "name"), [(0.05, "95%"), (0.05 / 7, "99.29%"), (4e-5, "99.996%")])
def test_no_interval_is_called_certain(share: float, name: str) -> None:
    assert sureness(share) == name
