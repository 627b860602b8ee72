"""Two models on the same sentence pairs: the bootstrap of their difference, and where they disagree."""

import numpy as np
import pytest
import scipy.stats

from analysis.answers.judge import Sides, Terms
from analysis.tables.columns import Interval, entry_of
from analysis.tables.pair_cosines import ColumnCosines
from cse.compare.items import compare_by_pairs, disagreements


def made(pairs: int, noise: tuple[float, float], seed: int = 0, seeds: int = 1) -> ColumnCosines:
    """Grades and two models whose cosines are the grades with noise."""
    generator = np.random.default_rng(seed)
    gold = generator.normal(size=pairs)
    rows = {row: [gold + sd * generator.normal(size=pairs) for _ in range(seeds)] for row, sd in enumerate(noise)}
    return ColumnCosines(gold, rows)


def sides(*columns: str) -> dict[str, Sides]:
    return dict.fromkeys(columns, Sides(entry_of({0: 1.0}), entry_of({0: 1.0})))


def test_the_difference_is_scipys_and_its_interval_that_of_a_plain_loop() -> None:
    kept = made(120, (0.5, 1.0), seeds=2)
    (compared,) = compare_by_pairs({"sts_dev": kept}, Terms(), sides("sts_dev"))

    def value(row: int, index: np.ndarray) -> float:
        seeds = [scipy.stats.spearmanr(c[index], kept.gold[index]).statistic for c in kept.rows[row]]
        return 100 * float(np.mean(seeds))

    every = np.arange(120)
    assert compared.difference == pytest.approx(value(0, every) - value(1, every))
    generator = np.random.default_rng(1)
    drawn = generator.integers(120, size=(1000, 120))
    plain = np.quantile([value(0, index) - value(1, index) for index in drawn], (0.025, 0.975))
    assert compared.interval == pytest.approx(plain, abs=1.0)
    assert compared.word == "better" and compared.seeds == (2, 2)


def test_columns_share_the_level() -> None:
    kept = made(100, (0.5, 0.6))
    alone, shared = (compare_by_pairs({"a": kept}, Terms(), sides(*columns))[0] for columns in ("a", "abcde"))
    assert (alone.level, shared.level) == (0.05, 0.01)

    def width(interval: Interval) -> float:
        return interval[1] - interval[0]

    assert width(shared.interval) > width(alone.interval)


def test_equal_models_are_a_tie_and_a_side_without_cosines_is_left_out() -> None:
    kept = made(50, (0.5, 0.5))
    same = ColumnCosines(kept.gold, {0: kept.rows[0], 1: kept.rows[0]})
    (compared,) = compare_by_pairs(
        {"a": same, "b": ColumnCosines(kept.gold, {0: kept.rows[0]})}, Terms(), sides("a", "b"), top=5
    )
    assert (compared.column, compared.word, compared.interval, compared.disagreements) == ("a", "tie", (0.0, 0.0), [])


def test_equally_good_models_are_rarely_told_apart() -> None:
    """100 sets of 150 pairs at 5%: three standard errors of chance above it."""
    words = [compare_by_pairs({"a": made(150, (1.0, 1.0), seed)}, Terms(), sides("a"))[0].word for seed in range(100)]
    wrong = np.mean([word in ("better", "worse") for word in words])
    assert wrong <= 0.05 + 3 * (0.05 * 0.95 / 100) ** 0.5


def test_disagreements_by_hand() -> None:
    """Ranks of A 1 2 3 4; of B's seeds 4 2 3 1 and 3 2 4 1, whose means are 3.5 2 3.5 1."""
    gold = np.array([0.0, 1.0, 2.0, 3.0])
    left, right = [np.array([0.1, 0.2, 0.3, 0.4])], [np.array([0.9, 0.2, 0.3, 0.1]), np.array([0.8, 0.3, 0.9, 0.1])]
    listed = disagreements(left, right, gold, 2)
    assert [(pair.index, pair.left_rank, pair.right_rank, pair.grade_rank) for pair in listed] == [
        (3, 4.0, 1.0, 4.0),
        (0, 1.0, 3.5, 1.0),
    ]
    assert [pair.nearer for pair in listed] == ["A", "A"] and listed[0].grade == 3.0
    assert len(disagreements(left, right, gold, 9)) == 3
