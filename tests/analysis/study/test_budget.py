"""Best so far over the examples spent, and the expected best of a random order."""

import itertools
import statistics

import numpy as np
import pytest

from analysis.study.budget import Budget, expected_best


def test_the_expected_best_of_three_by_hand() -> None:
    assert expected_best([3.0, 1.0, 2.0]) == pytest.approx((2.0, 8 / 3, 3.0))
    assert expected_best([]) == ()


def test_the_expected_best_is_the_mean_over_all_subsets() -> None:
    scores = np.random.default_rng(0).normal(size=7).tolist()
    every = [statistics.fmean(max(some) for some in itertools.combinations(scores, k)) for k in range(1, 8)]
    assert expected_best(scores) == pytest.approx(every)


def test_two_thousand_scores_stay_exact() -> None:
    scores = np.arange(2000.0).tolist()
    found = expected_best(scores)
    # The maximum of k of 0..n-1 without putting back has mean k (n + 1) / (k + 1) - 1.
    assert found == pytest.approx([k * 2001 / (k + 1) - 1 for k in range(1, 2001)], rel=1e-9)


def test_the_best_so_far_never_falls() -> None:
    assert Budget((1, 2, 3), (5.0, 4.0, 6.0), ()).best == (5.0, 5.0, 6.0)
