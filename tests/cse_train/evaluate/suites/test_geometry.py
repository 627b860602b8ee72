"""Alignment, uniformity and cosines by rating against loops, and T28."""

import math
from pathlib import Path

import numpy as np
import pytest

from cse_train.data_paths import DataPaths
from cse_train.evaluate.suites import geometry
from cse_train.evaluate.suites.geometry import alignment, cosines_by_rating, uniformity


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
