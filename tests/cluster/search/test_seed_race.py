"""Seed racing: where the next seed goes, by hand, and when it ends."""

import math

import numpy as np
import pytest
from scipy.stats import t as student

from cluster.plan.match import known
from cluster.search.seed_race import Race, Standing, next_cell, pooled_deviation, wrong_order
from search_spaces.cells import Cell


def standings(*groups: tuple[float, ...]) -> list[Standing]:
    return [Standing(group, len(group)) for group in groups]


def test_pooled_deviation_by_hand() -> None:
    # squares 2 and 8 about the means, one degree of freedom each
    deviation, freedom = pooled_deviation([(50.0, 52.0), (60.0, 64.0), (70.0,)])
    assert deviation == pytest.approx(math.sqrt((2 + 8) / 2))
    assert freedom == 2


def test_probability_of_a_wrong_order_is_students() -> None:
    wrong = wrong_order(np.array([50.0, 53.0]), np.array([2.0, 2.0]), np.array([2.0, 2.0]), 3.0, 4)
    assert wrong[0, 1] == pytest.approx(student.sf(1.0, 4))  # 3 / (3 sqrt(1/2 + 1/2)) = 1
    assert wrong[0, 0] == 0


def test_the_seed_goes_to_the_cell_whose_order_is_least_certain() -> None:
    """A and B are far from all; C and D overlap, C has fewer seeds."""
    cells = standings((10.0, 11.0), (90.0, 91.0), (50.0, 51.0), (51.0, 52.0, 52.5))
    assert next_cell(cells, 5) == 2


def test_a_race_ends_when_decided_or_out_of_seeds() -> None:
    far = standings((10.0, 11.0), (50.0, 51.0), (90.0, 91.0))
    assert next_cell(far, 5) is None
    close = standings((50.0, 51.0), (50.4, 51.8))
    assert next_cell(close, 5) is not None
    assert next_cell(close, 2) is None


def test_runs_under_way_count_as_seeds() -> None:
    close = [Standing((50.0, 51.0), 5), Standing((50.4, 51.8), 2)]
    assert next_cell(close, 5) == 1


def test_a_search_asks_only_about_its_best() -> None:
    """C and D overlap far below the best, A."""
    cells = standings((90.0, 91.0), (89.8, 90.7), (50.0, 51.0), (50.4, 51.8))
    assert next_cell(cells, 5, only_best=True) in (0, 1)
    assert next_cell(standings((90.0, 91.0), (50.0, 51.0), (50.4, 51.8)), 5, only_best=True) is None
    assert next_cell(standings((90.0,), (50.0,), (80.0,)), 5, only_best=True) == 0


def test_one_cell_or_none_is_no_race() -> None:
    assert next_cell(standings((1.0, 2.0)), 5) is None
    assert next_cell([Standing((), 1), Standing((1.0,), 1)], 5) is None


def test_racing_orders_more_pairs_than_equal_seeds_at_equal_runs() -> None:
    """Twelve cells of which six lie close together: 40 simulated races of 36 runs, each cell starting with two."""
    rng = np.random.default_rng(0)
    truth = np.array([30, 34, 38, 42, 46, 48, 50, 51, 51.5, 52, 52.5, 53.5], dtype=float)
    raced = fixed = 0.0
    for _ in range(40):
        draws = truth[:, None] + rng.normal(0, 1.0, (12, 40))
        fixed += correct(draws[:, :3].mean(1), truth)
        scores = [list(row[:2]) for row in draws]
        for _ in range(12):
            cell = next_cell([Standing(tuple(one), len(one)) for one in scores], 40)
            if cell is None:
                break
            scores[cell].append(draws[cell, len(scores[cell])])
        raced += correct(np.array([np.mean(one) for one in scores]), truth)
    assert raced > fixed


def correct(means: np.ndarray, truth: np.ndarray) -> float:
    upper = np.triu_indices(len(truth), 1)
    return float(np.mean(np.sign(means[:, None] - means)[upper] == np.sign(truth[:, None] - truth)[upper]))


def test_race_takes_up_the_ledgers_seeds_and_names_the_next() -> None:
    cells = [Cell({"x": x}, {}) for x in (1, 2)]
    seen = [known(cell, seed, "done", 50.0 + seed) for cell in cells for seed in (0, 1)]
    race = Race(4, [*seen, known(cells[0], 2, "failed", None)], only_best=False)
    race.record({"x": 2}, 1, "done", 51.6)
    key, seed = race.next_seed()
    assert (key, seed) == ({"x": 2}, 2)
    race.enter(key, seed)
    assert race.next_seed() == ({"x": 1}, 3)
