"""Two one-sided tests of bf16's dev scores, against scipy's own."""

import numpy as np
import pytest
from scipy import stats

from benchmarks.step.bf16_scores import LEVEL, Compared, row

FP32 = [60.0, 61.0, 62.0, 63.0, 64.0]


@pytest.mark.parametrize("shift", [0.0, 0.9, 1.3, 1.6, -1.2])
def test_inside_where_both_one_sided_tests_reject(shift: float) -> None:
    noise = np.array([0.3, -0.4, 0.2, 0.1, -0.2])
    compared = Compared(FP32, list(np.array(FP32) + shift + noise))
    differences = np.subtract(compared.bf16, compared.fp32)
    above = stats.ttest_1samp(differences, -compared.deviation, alternative="greater").pvalue
    below = stats.ttest_1samp(differences, compared.deviation, alternative="less").pvalue
    assert compared.inside == (max(above, below) < LEVEL) == (abs(shift) < 1.35)


def test_a_line_says_means_difference_and_word() -> None:
    near = row("simcse", Compared(FP32, [60.1, 60.9, 62.1, 62.9, 64.0]))
    assert near == "| simcse | 62.00 ± 1.58 | 62.00 ± 1.55 | +0.00 [-0.10, +0.10] | inside |"
    assert row("simcse", Compared(FP32, [65.0, 66.0, 67.5, 68.0, 69.0])).endswith("| NOT SHOWN |")
