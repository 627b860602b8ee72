"""Statistics against values worked out by hand or by scipy's own tables."""

import math

import pytest

from analysis.statistics.basics import mean_and_sd, t_interval


def test_mean_and_sd() -> None:
    assert mean_and_sd([]) == (None, None)
    assert mean_and_sd([3.0]) == (3.0, None)
    mean, sd = mean_and_sd([2.0, 4.0, 9.0])
    assert mean == 5.0 and sd == pytest.approx(math.sqrt(13))


def test_t_interval_of_three_seeds() -> None:
    """t(0.975, 2 degrees of freedom) = 4.30265."""
    assert t_interval([1.0]) is None
    interval = t_interval([9.0, 10.0, 11.0])
    assert interval == pytest.approx((10 - 4.30265 / math.sqrt(3), 10 + 4.30265 / math.sqrt(3)), abs=1e-4)
