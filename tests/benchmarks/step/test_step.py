"""What the step benchmarks count."""

import torch
from torch import nn

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
