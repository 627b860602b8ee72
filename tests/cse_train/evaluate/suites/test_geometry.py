"""Alignment, uniformity, cosines by rating and errors by length difference, against loops and printed means."""

import math
from pathlib import Path

import numpy as np
import pytest

from cse_train.data_paths import DataPaths
from cse_train.evaluate.pairs import load_pairs
from cse_train.evaluate.suites import geometry, lengths
from cse_train.evaluate.suites.geometry import alignment, cosines_by_rating, uniformity
from cse_train.evaluate.suites.lengths import length_differences, length_errors, macro_means


def random_rows(rows: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, width))


def looped_uniformity(rows: np.ndarray) -> float:
    points = [row / math.sqrt(row @ row) for row in rows]
    terms = [
        math.exp(-2 * float((points[i] - points[j]) @ (points[i] - points[j])))
        for i in range(len(points))
        for j in range(i + 1, len(points))
    ]
    return math.log(sum(terms) / len(terms))


@pytest.mark.parametrize("block", [1, 7, 512])
def test_uniformity_equals_a_loop_whatever_the_block(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geometry, "PAIRS_AT_ONCE", block)
    rows = random_rows(40, 3)
    assert uniformity(rows) == pytest.approx(looped_uniformity(rows), abs=1e-12)


def test_alignment_equals_a_loop() -> None:
    left, right = random_rows(20, 3), random_rows(20, 3, seed=1)
    distances = []
    for a, b in zip(left, right, strict=True):
        apart = a / math.sqrt(a @ a) - b / math.sqrt(b @ b)
        distances.append(sum(float(x) ** 2 for x in apart))
    assert alignment(left, right) == pytest.approx(sum(distances) / 20, abs=1e-12)


def test_T28_random_unit_vectors() -> None:
    """Scattered at random in 768 dimensions; the limit of many dimensions is -4."""
    assert uniformity(random_rows(600, 768)) == pytest.approx(-3.989, abs=0.002)


def test_T28_scale_does_not_matter() -> None:
    rows, other = random_rows(50, 6), random_rows(50, 6, seed=1)
    scales = np.random.default_rng(2).uniform(0.01, 100, size=(50, 1))
    assert uniformity(rows * scales) == pytest.approx(uniformity(rows), abs=1e-12)
    assert alignment(rows * scales, other) == pytest.approx(alignment(rows, other), abs=1e-12)


def test_T28_no_row_is_paired_with_itself() -> None:
    """Two opposite points: -2 |2|^2 = -8. With the diagonal it would be log((1 + exp(-8)) / 2) = -0.69."""
    assert uniformity(np.array([[1.0, 0.0], [-5.0, 0.0]])) == pytest.approx(-8.0)


def test_T28_a_corpus_that_stands_twice() -> None:
    """The copies are pairs at distance 0, a share of 1 in 2N - 1; over the distinct rows nothing changes."""
    rows = random_rows(30, 4)
    once = math.exp(uniformity(rows))
    twice = math.exp(uniformity(np.concatenate([rows, rows])))
    assert twice == pytest.approx((once * 4 * 30 * 29 / 2 + 30) / (60 * 59 / 2), abs=1e-12)
    assert uniformity(np.unique(np.concatenate([rows, rows]), axis=0)) == pytest.approx(uniformity(rows), abs=1e-12)


def test_too_few_rows_have_no_geometry() -> None:
    assert math.isnan(uniformity(random_rows(1, 3)))
    assert math.isnan(alignment(np.empty((0, 3)), np.empty((0, 3))))


def test_cosines_by_rating_equal_a_loop() -> None:
    rng = np.random.default_rng(0)
    gold = np.concatenate([[0, 1, 2, 3, 4, 5], rng.uniform(0, 5, 200)])
    cosines = np.concatenate([[-1 - 1e-12, 1 + 1e-12, 0, 0, 0, 1], rng.uniform(-1, 1, 200)])
    lines = cosines_by_rating(cosines, gold)
    for number, line in enumerate(lines):
        inside = [c for c, g in zip(cosines, gold, strict=True) if min(int(g), 4) == number]
        assert (line["from"], line["to"], line["pairs"]) == (number, number + 1, len(inside))
        assert line["mean"] == pytest.approx(sum(inside) / len(inside))
        assert sum(line["counts"]) == len(inside)


def test_a_rating_that_nobody_gave() -> None:
    line = cosines_by_rating(np.array([0.5]), np.array([4.5]))[0]
    assert (line["pairs"], line["mean"], line["sd"]) == (0, None, None)


def test_sts_b_test_set(data_dir: Path, made_model) -> None:
    found = geometry.evaluate(made_model, DataPaths.from_folder(data_dir), positives=list(geometry.POSITIVES))
    assert [(r.metric, r.protocol.rule) for r in found] == [
        ("alignment", "positives gold > 4"),
        ("alignment", "positives gold >= 4"),
        ("alignment", "positives gold == 5"),
        ("uniformity", "all sentences"),
        ("mean_cosine", "all pairs"),
    ]
    assert [r.details["pairs"] for r in found[:3]] == [231, 338, 97]
    assert found[3].details == {"points": 2758}
    assert [line["pairs"] for line in found[4].details["by_rating"]] == [243, 198, 265, 335, 338]


E1 = {
    "SimCSE": (
        [9.29, 22.81, 19.53, 19.92, 24.08, 22.12, 9.53],
        [8.93, 15.74, 11.90, 19.68, 28.91, 21.33, 7.86],
        (18.18, 16.34, 1.84),
    ),
    "ESimCSE": (
        [12.52, 28.56, 24.13, 24.17, 29.32, 25.63, 12.35],
        [13.48, 23.73, 17.14, 25.98, 34.71, 26.22, 10.44],
        (22.38, 21.67, 0.71),
    ),
}
"""Near, far, and the printed means and gap (ESimCSE table 7)."""


@pytest.mark.parametrize("row", E1)
def test_printed_means_are_means_over_the_seven_sets(row: str) -> None:
    near, far, (mean_near, mean_far, gap) = E1[row]
    found = macro_means([(a, 1), (b, 1)] for a, b in zip(near, far, strict=True))
    assert found == pytest.approx((mean_near, mean_far), abs=0.005)
    assert mean_near - mean_far == pytest.approx(gap, abs=0.005)


def test_errors_equal_a_loop() -> None:
    rng = np.random.default_rng(0)
    cosines, gold, apart = rng.uniform(-1, 1, 50), rng.uniform(0, 5, 50), rng.integers(0, 8, 50)
    parts: dict[bool, list[float]] = {True: [], False: []}
    for c, g, d in zip(cosines, gold, apart, strict=True):
        parts[bool(d <= 3)].append(100 * abs(c - g / 5))
    near, far = parts[True], parts[False]
    found = length_errors(cosines, gold, apart)
    assert [value for value, _ in found] == pytest.approx([sum(near) / len(near), sum(far) / len(far)])
    assert [pairs for _, pairs in found] == [len(near), len(far)]


def test_C6_parts_of_sts_b_test(data_dir: Path) -> None:
    pairs = load_pairs("sts_test", DataPaths.from_folder(data_dir))
    apart = length_differences(pairs.left, pairs.right)
    found = length_errors(np.zeros(len(pairs)), pairs.gold, apart)
    assert [pairs for _, pairs in found] == [1096, 283]


def test_lengths_are_words_between_blanks() -> None:
    assert length_differences(["unaffable  people , too", "a"], ["a", "a b c"]).tolist() == [3, 2]


def test_results_of_sets_and_of_their_means(data_dir: Path, made_model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lengths, "SEVEN", ("sts13", "sts_test"))
    found = lengths.evaluate(made_model, DataPaths.from_folder(data_dir))
    assert [(r.suite, r.metric) for r in found] == [
        ("sts13", "mean_abs_error_near"),
        ("sts13", "mean_abs_error_far"),
        ("sts_test", "mean_abs_error_near"),
        ("sts_test", "mean_abs_error_far"),
        ("lengths", "mean_abs_error_near"),
        ("lengths", "mean_abs_error_far"),
        ("lengths", "gap"),
    ]
    values = [r.value for r in found]
    assert values[4:] == pytest.approx(
        [(values[0] + values[2]) / 2, (values[1] + values[3]) / 2, values[4] - values[5]]
    )
    assert [r.details.get("pairs") for r in found[2:4]] == [1096, 283]
    assert {r.protocol.rule for r in found} == {"lengths differ by at most 3 words or more, absolute, gold / 5"}
    assert found[4].protocol.aggregation == "mean of sts13, sts_test"
