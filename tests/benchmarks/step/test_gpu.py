"""The card's benchmark on the CPU: the same loops and lines at a size that takes seconds."""

import re

import pytest

from benchmarks.step.gpu import Setting, measure, peak_of
from benchmarks.step.setting import Size

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
