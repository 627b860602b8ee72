"""Statistics against values worked out by hand or by scipy's own tables."""

import math

import pytest

from analysis.statistics.basics import Spread, mean_and_sd, t_interval


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
