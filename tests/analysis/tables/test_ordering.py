"""Tau, its interval over seeds, and differences over sentence pairs: by hand, against scipy, and by simulation."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from analysis.statistics.basics import holm
from analysis.statistics.spearman_bootstrap import draw_counts, resample_pairs
from analysis.tables.aggregate import Row, Table
from analysis.tables.columns import entry_of
from analysis.tables.ordering import measure_chance, orderings, pair_differences, resample_means, tau_b, tau_interval
from analysis.tables.pair_cosines import ColumnCosines
from analysis.tables.spec import TableSpec


def table_of(values: list[list[float]], published: list[float | None]) -> Table:
    rows = [
        Row({"x": i}, {"dev": entry_of(dict(enumerate(v)), printed)})
        for i, (v, printed) in enumerate(zip(values, published, strict=True))
    ]
    return Table(TableSpec(id="T", axes=["x"], columns=["dev"]), rows, [], {}, [])


def test_tau_b_is_scipys_with_ties() -> None:
    rng = np.random.default_rng(0)
    ours, printed = rng.integers(0, 4, (50, 7)).astype(float), rng.integers(0, 4, 7).astype(float)
    expected = [scipy.stats.kendalltau(line, printed).statistic for line in ours]
    assert tau_b(ours, printed) == pytest.approx(expected, abs=1e-12)
    assert tau_b(np.ones((1, 3)), np.arange(3.0)).tolist() == [0.0]


def test_resampled_means_by_hand() -> None:
    """Seeds 1 and 3: deviations ±1, widened ±sqrt(2); means of two draws are 2 - sqrt(2), 2, 2 + sqrt(2)."""
    drawn = resample_means([[1.0, 3.0], [5.0]], np.random.default_rng(0), 4000)
    assert drawn is not None and drawn.shape == (4000, 2)
    values, counts = np.unique(drawn[:, 0].round(9), return_counts=True)
    assert values == pytest.approx([2 - 2**0.5, 2, 2 + 2**0.5])
    assert counts / 4000 == pytest.approx([0.25, 0.5, 0.25], abs=0.03)
    assert set(drawn[:, 1].round(9)) == {round(5 - 2**0.5, 9), round(5 + 2**0.5, 9)}, "one seed: everyone's deviations"
    assert drawn[:, 0].var() == pytest.approx(1.0, rel=0.1), "the variance of a mean of two with sd sqrt(2)"
    assert resample_means([[1.0], [2.0]], np.random.default_rng(0), 10) is None


def test_orders_that_are_clear() -> None:
    up = [[60.0 + i, 60.1 + i, 60.2 + i] for i in range(5)]
    (same,) = orderings(table_of(up, [80.0, 81.0, 82.0, 83.0, 84.0]), {})
    assert (same.word, same.tau, same.interval, same.rows) == ("ordering supported", 1.0, (1.0, 1.0), 5)
    assert same.p == 2 / 120 and same.reason.endswith("5 rows; a random order gets as far 1.7% of the time")
    (against,) = orderings(table_of(up, [84.0, 83.0, 82.0, 81.0, 80.0]), {})
    assert (against.word, against.tau) == ("not supported", -1.0)


def test_an_order_that_chance_makes_as_well_is_not_supported() -> None:
    """Four rows agree fully with p 2 / 4!, whatever the seeds say; 8 rows at tau 0.29 with p 0.4, as E7 at tiny."""
    up = [[60.0 + i, 60.1 + i, 60.2 + i] for i in range(8)]
    for rows, printed in ((4, [80.0, 81.0, 82.0, 83.0]), (8, [3.0, 1.0, 2.0, 7.0, 0.0, 5.0, 4.0, 6.0])):
        (order,) = orderings(table_of(up[:rows], printed), {})
        assert order.interval is not None and order.interval[0] > 0, "the seeds alone support it"
        assert order.word == "undecided" and order.p is not None and order.p >= 0.05
        (against,) = orderings(table_of(up[:rows], printed[::-1]), {})
        assert against.word == "undecided"


def test_chance_is_scipys_exact_p_and_counts_ties() -> None:
    rng = np.random.default_rng(2)
    for rows in (3, 5, 7, 12):
        means, printed = rng.normal(size=rows), rng.permutation(float(rows) * np.arange(rows))
        exact = scipy.stats.kendalltau(means, printed, method="exact").pvalue
        within = 1e-12 if rows <= 7 else 0.03
        assert measure_chance(means, list(printed), np.ones(rows, bool), rng) == pytest.approx(exact, abs=within)
    ties = measure_chance(np.array([1.0, 1.0, 2.0]), [5.0, 5.0, 6.0], np.ones(3, bool), rng)
    assert ties == pytest.approx(1 / 3), "by hand"


def test_rows_and_tables_without_signal_have_no_order() -> None:
    """The two lowest of seven stand the other way round: 19 of 21 pairs agree, and without signal 20 of 20."""
    up = [[60.0 + i, 60.1 + i, 60.2 + i] for i in range(7)]
    table = table_of(up, [81.0, 80.0, 82.0, 83.0, 84.0, 85.0, 86.0])
    assert orderings(table, {})[0].tau == pytest.approx(19 / 21)
    for row in table.rows[:2]:
        row.entries["dev"] = replace(row.entries["dev"], idle=(0, 1))
    (order,) = orderings(table, {})
    assert order.word == "ordering supported" and order.tau == pytest.approx(20 / (20 * 21) ** 0.5)
    assert order.reason.endswith("; no order among 2 rows without signal")
    (none,) = orderings(replace(table, no_signal="18 of 18 runs are idle"), {})
    assert (none.word, none.tau, none.interval, none.reason) == ("no signal", None, None, "18 of 18 runs are idle")


def test_orders_that_cannot_be_told() -> None:
    noisy = [[60.0, 64.0], [61.0, 63.0], [59.0, 65.5]]
    (open_,) = orderings(table_of(noisy, [80.0, 81.0, 82.0]), {})
    assert open_.word == "undecided" and open_.interval is not None and open_.interval[0] < 0 < open_.interval[1]
    (few,) = orderings(table_of([[1.0, 2.0], [3.0, 4.0], []], [1.0, 2.0, 3.0]), {})
    assert (few.word, few.tau) == ("undecided", None) and "2 rows have both numbers" in few.reason
    (single,) = orderings(table_of([[1.0], [2.0], [3.0]], [1.0, 2.0, 3.0]), {})
    assert single.word == "undecided" and "no row has two seeds" in single.reason
    (flat,) = orderings(table_of([[1.0], [2.0], [3.0]], [1.0, 1.0, 1.0]), {})
    assert flat.word == "undecided" and "equal" in flat.reason
    assert orderings(table_of([[1.0]], [None]), {}) == []
    assert few.lacking == ("no cosines of single sentence pairs are kept for this column",)


def test_an_ordering_is_the_same_twice() -> None:
    table = table_of([[60.0, 64.0], [61.0, 63.0], [59.0, 65.5]], [80.0, 81.0, 82.0])
    assert orderings(table, {}) == orderings(table, {})


def test_how_often_an_order_is_claimed_that_is_not_there() -> None:
    """600 tables of 6 equal rows with 3 seeds: chance makes some order, and at most 5% are called supported."""
    rng = np.random.default_rng(3)
    printed = list(np.arange(6.0))
    found = [tau_interval(rng.normal(0, 1, (6, 3)).tolist(), printed, rng, draws=500) for _ in range(600)]
    assert sum(low > 0 for low, _ in found if low is not None) / 600 <= 0.05  # type: ignore[misc]


def test_the_interval_of_tau_covers_the_true_order() -> None:
    """600 tables of 6 rows, true means 1 sd apart in an order with tau 0.6: at least 90% of the intervals hold it."""
    rng = np.random.default_rng(4)
    printed, means = np.arange(6.0), np.array([1.0, 0.0, 3.0, 2.0, 5.0, 4.0])
    truth = scipy.stats.kendalltau(means, printed).statistic
    found = [
        tau_interval((means + rng.normal(0, 1, (3, 6))).T.tolist(), list(printed), rng, draws=500) for _ in range(600)
    ]
    assert truth == pytest.approx(0.6)
    assert sum(low - 1e-9 <= truth <= high + 1e-9 for low, high in found) / 600 >= 0.90  # type: ignore[misc]


def test_all_resamples_at_once_equal_the_loop() -> None:
    rng = np.random.default_rng(5)
    gold = rng.integers(0, 6, 60).astype(float)
    rows = [[(gold + rng.normal(0, s, 60)).round(1) for _ in range(2)] for s in (1, 3)]
    found = resample_pairs(rows, gold, 230, np.random.default_rng(9))
    counts = np.concatenate(list(draw_counts(60, 230, np.random.default_rng(9))), axis=1)
    for draw, count in enumerate(counts.T.astype(int)):
        picked = np.repeat(np.arange(60), count)
        for row, seeds in enumerate(rows):
            each = [scipy.stats.spearmanr(one[picked], gold[picked]).statistic for one in seeds]
            assert found[row, draw] == pytest.approx(100 * np.mean(each), abs=1e-9)


def test_a_constant_side_counts_as_zero() -> None:
    assert resample_pairs([[np.ones(5)]], np.arange(5.0), 3, np.random.default_rng(0)).tolist() == [[0.0, 0.0, 0.0]]


def test_holm_by_hand() -> None:
    """Sorted 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1: 0.02, 0.03, 0.06, then 0.04 raised to 0.06."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def kept(*noises: float, seeds: int = 2, pairs: int = 400, generator: int = 0) -> ColumnCosines:
    rng = np.random.default_rng(generator)
    gold = rng.uniform(0, 5, pairs)
    rows = {row: [gold + rng.normal(0, noise, pairs) for _ in range(seeds)] for row, noise in enumerate(noises)}
    return ColumnCosines(gold, rows)


def test_pairs_that_differ() -> None:
    column = kept(1.0, 1.0, 4.0)
    alike, far, also = pair_differences(column, np.random.default_rng(0))
    assert [(p.left, p.right) for p in (alike, far, also)] == [(0, 1), (0, 2), (1, 2)]
    assert (alike.differs, far.differs, also.differs) == (False, True, True)
    assert far.difference == pytest.approx(column.means[0] - column.means[2])
    assert far.interval[0] < far.difference < far.interval[1]
    assert far.p == pytest.approx(1 / 1001) and far.corrected == pytest.approx(3 / 1001)


def test_many_rows_can_still_differ_after_holm() -> None:
    found = pair_differences(kept(*[0.5] * 9, 6.0, seeds=1, pairs=200), np.random.default_rng(0))
    assert len(found) == 45 and {pair.right for pair in found if pair.differs} == {9}
    assert sum(pair.differs for pair in found) == 9


def test_the_interval_of_a_difference_covers_the_truth() -> None:
    """200 sets of 200 pairs: the true difference, from 200,000 pairs, lies in 95% of the intervals, 3.5% either way."""
    wide = kept(2.0, 2.6, seeds=1, pairs=200_000, generator=1)
    truth, inside = wide.means[0] - wide.means[1], 0
    for generator in range(200):
        column = kept(2.0, 2.6, seeds=1, pairs=200, generator=generator + 2)
        (pair,) = pair_differences(column, np.random.default_rng(generator), draws=200)
        inside += pair.interval[0] <= truth <= pair.interval[1]
    assert inside / 200 == pytest.approx(0.95, abs=0.035)
