"""What the step benchmarks count, and the card's benchmark on the CPU."""

import re

import pytest
import torch
from torch import nn

from benchmarks.step.gpu import Setting, measure, peak_of
from benchmarks.step.setting import Size
from benchmarks.step.turns import operations
from cse_train.encoder.ops import linear
from cse_train.numerics import fast_fp32


def test_operations_are_the_same_whichever_library_multiplies():
    layer, x = nn.Linear(24, 40), torch.randn(37, 24, requires_grad=True)

    def step() -> None:
        linear(x, layer).sum().backward()

    assert operations(step) == 3 * 2 * 37 * 24 * 40
    with fast_fp32():
        assert operations(step) == 3 * 2 * 37 * 24 * 40


def test_products_into_a_given_tensor_are_counted():
    left, right, into = torch.randn(3, 4, 5), torch.randn(3, 5, 6), torch.empty(3, 4, 6)
    assert operations(lambda: torch.bmm(left, right, out=into)) == 2 * 3 * 4 * 5 * 6


pytest.importorskip("accelerate", reason="the HF Trainer needs it: pip install -c constraints.txt -e .[bench]")
pytest.importorskip("sentence_transformers")


def test_peaks_are_found_by_a_cards_name() -> None:
    assert peak_of("NVIDIA H200") == 989e12 and peak_of("NVIDIA L4") == 121e12 and peak_of("NVIDIA L40S") == 362e12
    assert peak_of("NVIDIA GeForce RTX 4090") is None


@pytest.mark.slow
def test_every_contender_is_measured() -> None:
    lines, figures = measure(Size(2, 32, 2, 4, 0.0, 0.0), 4, Setting("cpu", 2, 2, 1), 1e12)
    table = [line for line in lines if line.startswith("| L2 H32 | 4 |")]
    assert [row.split("|")[3].strip() for row in table] == [
        "ours",
        "ours, padded to 32",
        "ours, every sentence of 32 tokens",
        "ours, train.graph auto",
        "ours, every sentence of 32 tokens, train.graph auto",
        "SimCSE in the HF Trainer",
        "sentence-transformers' trainer",
    ]
    assert any(re.search(r"packing gains \d.*% of the peak.*, with train.graph auto .*% of the peak", s) for s in lines)
    assert 0 < figures["share_of_peak"] < 1 and len(figures["steps"]) == len(table)
    profiled = [line.split("|")[1].strip() for line in lines if line.startswith(("| aten::", "| mkldnn::"))]
    assert profiled and profiled[0].endswith(("mm", "linear", "linear_pointwise", "linear_backward")), profiled
