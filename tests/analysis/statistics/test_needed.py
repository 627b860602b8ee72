"""Seeds that a difference needs, by hand and by simulation; the levels of looks."""

import numpy as np
import pytest
import scipy.stats

from analysis.statistics.looks import LOOKS, NOMINAL, level, looks_until
from analysis.statistics.needed import expect_seeds, seeds_needed, seeds_to_decide


def test_by_hand() -> None:
    """Paired t at 5%, sd 1: 3 seeds reach (4.3027 + 1.0607) / sqrt(3) = 3.097, 4 (3.1824 + 0.9785) / 2 = 2.080."""
    assert [seeds_needed(gap, 1.0, 1, 0.05) for gap in (3.10, -3.09, 2.09, 2.08)] == [3, 4, 4, 5]
    assert seeds_needed(0.01, 1.0, 1, 0.05) is None


def test_that_many_seeds_decide_in_four_of_five_tables() -> None:
    seeds = seeds_needed(1.0, 1.0, 1, 0.05)
    assert seeds is not None
    drawn = np.random.default_rng(0).normal(1.0, 1.0, (4000, seeds))
    assert (scipy.stats.ttest_1samp(drawn, 0, axis=1).pvalue < 0.05).mean() == pytest.approx(0.8, abs=0.03)


def test_a_tie_may_take_fewer() -> None:
    direction, tie = seeds_needed(0.2, 0.1, 1, 0.05), seeds_needed(0.3, 0.1, 1, 0.10)
    assert direction is not None and tie is not None and tie < direction
    assert seeds_to_decide(0.2, 0.5, 0.1, 1, 0.05) == tie
    assert seeds_to_decide(0.6, 0.5, 0.1, 1, 0.05) == seeds_needed(0.6, 0.1, 1, 0.05)


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
