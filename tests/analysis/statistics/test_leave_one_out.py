"""What a component is worth: paired where seeds are common, else Welch, and the order of the losses."""

import pytest
import scipy.stats

from analysis.statistics.leave_one_out import leave_one_out

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
