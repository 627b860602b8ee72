"""Errors by length difference against loops and ESimCSE's printed means."""

from pathlib import Path

import numpy as np
import pytest

from cse_train.data_paths import DataPaths
from cse_train.evaluate.pairs import load_pairs
from cse_train.evaluate.suites import lengths
from cse_train.evaluate.suites.lengths import length_differences, length_errors, macro_means

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
