"""The model of a step at another rate of matrix products."""

import torch

from benchmarks.paired import timed
from benchmarks.step.rates import Measured, Parts, is_product, leads, parts_of, rows

OURS, PEER = Parts(20.0, 10.0, 5.0), Parts(80.0, 30.0, 10.0)


def test_only_the_products_follow_the_rate() -> None:
    """120 to 35 here; 200 to 55 at half the rate, 80 to 25 at twice."""
    parts = {"ours": OURS, "hf": PEER}
    assert [round(leads(parts, factor)["hf"], 4) for factor in (0.5, 1, 2)] == [3.6364, 3.4286, 3.2]


def test_which_operations_multiply() -> None:
    multiply = ["aten::mm", "aten::addmm", "aten::bmm", "mkldnn::_linear_pointwise", "aten::mkldnn_linear"]
    multiply.append("aten::_scaled_dot_product_flash_attention_for_cpu_backward")
    assert all(map(is_product, multiply))
    assert not any(
        map(is_product, ["aten::gelu", "aten::add_", "AddmmBackward0", "aten::copy_", "aten::native_dropout"])
    )


def test_the_parts_of_a_step_add_up_to_it() -> None:
    left = torch.ones(300, 300)
    parts = parts_of(timed(lambda: (left @ left).exp()), 3, 1000.0)
    assert 0 < parts.products < 500 and 0 < parts.operations < 500
    assert round(parts.products + parts.operations + parts.interpreter, 6) == 1000
    assert parts_of(timed(lambda: left @ left), 1, 0.0).interpreter == 0


def test_a_row_has_the_model_beside_what_was_measured() -> None:
    here = Measured(200.0, {"ours": OURS, "hf": PEER}, {"ours": 35.0, "hf": 119.0})
    slow = Measured(100.0, {"ours": OURS, "hf": PEER}, {"ours": 50.0, "hf": 175.0})
    ours, peer = rows("tiny", here, slow)
    assert ours == "| L2 H128 | ours | 35.0 | 20.0 | 10.0 | 5.0 | 1 | 1 | 1 | 1 | 1 | 1 |"
    assert peer.startswith("| L2 H128 | SimCSE in the HF Trainer | 119.0 | 80.0 | 30.0 | 10.0 |")
    assert peer.endswith("| 3.40 | 3.64 | 3.43 | 3.20 | 3.64 | 3.50 |")
