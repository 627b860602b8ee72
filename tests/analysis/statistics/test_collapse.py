"""Which seeds count as collapsed."""

import numpy as np
import pytest

from analysis.statistics.collapse import comparable, find_collapsed

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
