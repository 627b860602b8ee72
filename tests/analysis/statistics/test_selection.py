"""The expected best of n draws, the shrunken mean and the optimism: literals, closed forms and simulations."""

import itertools
import math
import statistics

import numpy as np
import pytest

from analysis.statistics.selection import expect_best, select, shrunken


def test_the_mean_over_all_subsets_by_hand() -> None:
    """{1, 2, 4}: pairs have the maxima 2, 4, 4."""
    assert expect_best([4.0, 1.0, 2.0], 1) == pytest.approx(7 / 3)
    assert expect_best([4.0, 1.0, 2.0], 2) == pytest.approx(10 / 3)
    assert expect_best([4.0, 1.0, 2.0], 3) == 4.0


def test_it_is_the_mean_over_all_subsets() -> None:
    scores = np.random.default_rng(0).normal(size=7).tolist()
    every = [statistics.fmean(max(some) for some in itertools.combinations(scores, k)) for k in range(1, 8)]
    assert [expect_best(scores, k) for k in range(1, 8)] == pytest.approx(every)


def test_two_thousand_scores_stay_exact() -> None:
    scores = np.arange(2000.0).tolist()
    # The maximum of k of 0..n-1 without putting back has mean k (n + 1) / (k + 1) - 1.
    exact = [k * 2001 / (k + 1) - 1 for k in range(1, 2001)]
    assert [expect_best(scores, k) for k in range(1, 2001)] == pytest.approx(exact, rel=1e-9)


def test_thousands_of_values_do_not_overflow() -> None:
    values = np.linspace(0, 1, 5001).tolist()
    assert expect_best(values, 2500) == pytest.approx(2500 / 2501, abs=1e-3)


def test_it_is_unbiased_where_drawing_with_replacement_is_not() -> None:
    """Uniform values: the best of n has the mean n / (n + 1). Bar: 4 standard errors; the plug-in fails by more."""
    rng = np.random.default_rng(0)
    size, draws, repeats = 8, 5, 4000
    samples = np.sort(rng.random((repeats, size)))
    ours = np.array([expect_best(row, draws) for row in samples.tolist()])
    share = (np.arange(1, size + 1) / size) ** draws
    plug_in = samples @ np.diff(share, prepend=0)
    error = 4 / math.sqrt(repeats)
    assert abs(ours.mean() - draws / (draws + 1)) < error * ours.std()
    assert abs(plug_in.mean() - draws / (draws + 1)) > error * plug_in.std()


def test_shrinking_by_hand() -> None:
    """Means 1, 3, 5 of two runs, variance 2 in each: between mean squares 8, so t = 3 and a mean keeps 3 / 4."""
    cells = [[0.0, 2.0], [2.0, 4.0], [4.0, 6.0]]
    assert shrunken(cells, 2) == pytest.approx(3 + 0.75 * 2)
    assert shrunken([[1.0], [3.0]], 1) is None and shrunken([[1.0, 2.0]], 0) is None
    assert shrunken([[0.0, 4.0], [1.0, 3.0]], 0) == pytest.approx(2.0), "no spread beyond the seeds'"
    assert shrunken([[1.0, 1.0], [3.0, 3.0]], 1) == pytest.approx(3.0), "seeds without noise shrink nothing"


def test_the_shrunken_value_of_the_best_of_many_is_nearer_the_truth() -> None:
    """Bar: over 400 grids of 20 cells x 3 seeds, its mean error is below a fifth of the plain mean's."""
    rng = np.random.default_rng(1)
    plain, shrunk = [], []
    for _ in range(400):
        truth = rng.normal(0, 1, 20)
        runs = truth[:, None] + rng.normal(0, 1.5, (20, 3))
        best = int(runs.mean(1).argmax())
        plain.append(runs[best].mean() - truth[best])
        shrunk.append((shrunken(runs.tolist(), best) or 0.0) - truth[best])
    assert np.mean(plain) > 0.3
    assert abs(np.mean(shrunk)) < np.mean(plain) / 5


def test_a_selection_tells_the_draws_that_there_are() -> None:
    found = select([[60.0, 62.0], [70.0, 50.0], [61.5, 62.5]], 2)
    assert list(found.expected_best) == [1, 3] and found.expected_best[3] == found.value == 62.0
    assert (found.best_run, found.other_seeds, found.optimism_of_run) == (62.5, 61.5, 1.0)
    assert found.shrunken is not None and found.optimism == pytest.approx(62.0 - found.shrunken)
    assert list(select([[float(i)] for i in range(12)], 11).expected_best) == [1, 5, 10, 12]
    alone = select([[1.0]], 0)
    assert (alone.other_seeds, alone.optimism_of_run, alone.shrunken, alone.optimism) == (None, None, None, None)
