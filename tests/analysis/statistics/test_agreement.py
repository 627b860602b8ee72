"""Kendall's W over seeds: by hand, against scipy's Friedman statistic, and how often it is claimed by chance."""

import itertools

import numpy as np
import pytest
import scipy.stats

from analysis.statistics.agreement import concordance, correlate_seeds
from analysis.tables.columns import Entry
from analysis.tables.ordering import order_entries


def cell(values: dict[int, float]) -> Entry:
    return Entry(len(values), None, None, None, tuple(values.values()), tuple(values))


def test_W_by_hand() -> None:
    """Ranks 123, 123, 132: sums 3, 7, 8 around 6, so S = 14 of at most 9 * 2 = 18."""
    found = concordance(np.array([[1.0, 2, 3], [10, 20, 30], [5, 9, 7]]), np.random.default_rng(0))
    assert found is not None and (found.seeds, found.rows) == (3, 3)
    assert found.w == pytest.approx(14 / 18)


def test_W_is_friedmans_statistic_with_ties_too() -> None:
    rng = np.random.default_rng(0)
    for values in rng.integers(0, 4, (20, 4, 6)).astype(float):
        found = concordance(values, rng, draws=1)
        assert found is not None
        assert found.w * 4 * 5 == pytest.approx(scipy.stats.friedmanchisquare(*values.T).statistic)


def test_p_is_that_of_all_orders() -> None:
    """Two seeds, three rows: six orders of the second seed beside the first, all counted."""
    values = np.array([[1.0, 2, 3], [1.0, 3, 2]])
    found = concordance(values, np.random.default_rng(0), draws=20_000)
    orders = [concordance(np.array([[1.0, 2, 3], order]), np.random.default_rng(0), 1) for order in
              itertools.permutations([1.0, 2, 3])]  # fmt: skip
    assert found is not None and found.w == pytest.approx(0.75)
    expected = np.mean([one is not None and one.w >= found.w - 1e-9 for one in orders])
    assert found.p == pytest.approx(expected, abs=0.015)


def test_seeds_that_move_all_rows_alike_agree() -> None:
    rng = np.random.default_rng(0)
    values = np.arange(5.0) * 0.2 + rng.normal(0, 5, (3, 1))
    found = concordance(values, rng)
    assert found is not None and found.w == 1.0 and found.p < 0.001


def test_how_often_equal_rows_are_claimed_to_have_an_order() -> None:
    rng = np.random.default_rng(1)
    found = [concordance(values, rng, draws=200) for values in rng.normal(0, 1, (600, 3, 6))]
    assert 0.02 <= np.mean([one is not None and one.p <= 0.05 for one in found]) <= 0.07


def test_rows_that_move_together_make_p_too_small() -> None:
    """Each seed tilts its rows by a slope of its own: what docs/verdicts.md warns of, in its size."""
    rng = np.random.default_rng(2)
    tables = rng.normal(0, 1, (600, 3, 1)) * np.arange(6.0) + rng.normal(0, 0.1, (600, 3, 6))
    found = [concordance(values, rng, draws=200) for values in tables]
    assert 0.2 <= np.mean([one is not None and one.p <= 0.05 for one in found]) <= 0.35


def test_only_seeds_that_all_rows_have_are_asked() -> None:
    rows = [cell({0: 1.0, 1: 9.0, 2: 1.0}), cell({0: 2.0, 2: 2.0}), cell({}), cell({2: 3.0, 0: 3.0, 3: 0.0})]
    found = order_entries(rows, np.random.default_rng(0))
    assert found is not None and (found.w, found.seeds, found.rows) == (1.0, 2, 3)


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{0: 1.0, 1: 2.0}, {0: 2.0, 1: 1.0}],
        [{0: 1.0}, {0: 2.0}, {0: 3.0}],
        [{0: 1.0, 1: 2.0}, {0: 1.0, 1: 2.0}, {0: 1.0, 1: 2.0}],
        [{0: 1.0, 1: 2.0}, {1: 1.0, 2: 2.0}, {2: 1.0, 0: 2.0}],
    ],
    ids=["no rows", "two rows", "one seed", "equal rows", "no common seed"],
)
def test_too_little_to_say(rows: list[dict[int, float]]) -> None:
    assert order_entries([cell(row) for row in rows], np.random.default_rng(0)) is None


def test_rho_by_hand_and_from_tables_that_have_it() -> None:
    """Two rows 1 3 and 2 6 over two seeds: mean squares 9 between and 1 within, (9 - 1) / (9 + 1)."""
    assert correlate_seeds(np.array([[1.0, 2], [3, 6]])) == pytest.approx(0.8)
    assert correlate_seeds(np.array([[1.0, 2, 3], [1, 2, 3]])) == 0.0
    rng = np.random.default_rng(0)
    values = np.sqrt(0.7) * rng.normal(size=(4000, 1)) + np.sqrt(0.3) * rng.normal(size=(4000, 6))
    assert correlate_seeds(values + np.arange(6)) == pytest.approx(0.7, abs=0.02)
