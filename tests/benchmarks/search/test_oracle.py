"""Strategies that know the surface: their belief by hand, and the budget that binds them too."""

import numpy as np
import pytest

from benchmarks.search.oracle import Belief, Surface, oracles, ranks
from benchmarks.search.replay import Replay, synthetic

TWO = Surface(
    mean=10.0,
    cover=np.array([[4.0, 2.0], [2.0, 4.0]]),
    lines=np.array([[2.0, 1.0], [1.0, 0.0]]),
    bias=np.array([3.0, 0.0]),
    bias_cover=np.eye(2),
    noise=np.full((2, 2), 4.0),
)


def test_a_belief_by_hand():
    belief = Belief(TWO, TWO.noise)
    mean, cover = belief.after([])
    assert mean.tolist() == [10.0, 10.0] and cover.tolist() == TWO.cover.tolist()
    mean, cover = belief.after([(0, 2, 14.0)])
    assert mean == pytest.approx([12.0, 11.0]) and np.diag(cover) == pytest.approx([2.0, 3.5])
    mean, cover = belief.after([(0, 1, 6.5)])  # 14 on the scale of final scores, with a bias of deviation 3
    assert mean == pytest.approx([10 + 16 / 17, 10 + 8 / 17]) and cover[0, 0] == pytest.approx(4 - 16 / 17)


def test_cells_are_told_apart_by_the_rank_of_each_value():
    grid = synthetic(np.random.default_rng(0))
    places = ranks(grid)
    assert places.shape == (84, 3) and places.min() == 0 and places.max() == 1
    assert grid.cells[1].key["train.learning_rate"] == 3e-4 and places[1].tolist() == [0, 0, pytest.approx(1 / 6)]


def test_an_oracle_pays_as_the_others_do():
    grid = synthetic(np.random.default_rng(0))
    replay = Replay(grid, 8 * 3200, np.random.default_rng(1))
    picked = oracles(grid)["oracle: kernel, noise, early scores"](replay, np.random.default_rng(2))
    left, _ = replay.truth()
    assert not replay.affords and np.isfinite(left).all()
    assert replay.regret(picked)[0] < np.median(grid.finals.max() - grid.finals.mean(axis=1))
