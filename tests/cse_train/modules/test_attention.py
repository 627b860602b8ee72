"""The one-node attention against the plain one that autograd takes apart, masks included."""

import pytest
import torch
from torch.autograd import gradcheck

from cse_train.modules.attention import GroupAttention
from cse_train.modules.dropout import scaled_mask

ROWS, WIDTH, HEADS, HEAD = 3, 5, 2, 4


@pytest.fixture
def given() -> tuple[torch.Tensor, torch.Tensor]:
    """Queries, keys and values in one, and a bias that hides the end of two rows."""
    generator = torch.Generator().manual_seed(0)
    qkv = torch.randn(ROWS, WIDTH, 3 * HEADS * HEAD, dtype=torch.float64, generator=generator, requires_grad=True)
    real = torch.arange(WIDTH)[None] < torch.tensor([5, 3, 1])[:, None]
    bias = torch.where(real, 0.0, torch.finfo(torch.float32).min).double()
    return qkv, bias[:, None, None, :]


def plain(qkv: torch.Tensor, bias: torch.Tensor | None, rate: float) -> torch.Tensor:
    query, key, value = qkv.view(ROWS, WIDTH, 3, HEADS, HEAD).permute(2, 0, 3, 1, 4)
    scores = query @ key.mT / HEAD**0.5
    weights = torch.softmax(scores if bias is None else scores + bias, -1)
    if rate:
        weights = weights * scaled_mask(weights, rate)
    return (weights @ value).transpose(1, 2).reshape(ROWS, WIDTH, -1)


@pytest.mark.parametrize("rate", [0.0, 0.4])
@pytest.mark.parametrize("padded", [False, True])
def test_values_and_gradients_equal_the_plain_ones(given, padded, rate):
    qkv, bias = given[0], given[1] if padded else None
    torch.manual_seed(1)
    ours = GroupAttention.apply(qkv, bias, HEADS, rate)
    torch.manual_seed(1)
    theirs = plain(qkv, bias, rate)
    torch.testing.assert_close(ours, theirs)
    weight = torch.randn(ours.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    gradients = [torch.autograd.grad((mixed * weight).sum(), qkv)[0] for mixed in (ours, theirs)]
    torch.testing.assert_close(*gradients)


def test_the_gradient_is_the_derivative(given):
    assert gradcheck(lambda qkv: GroupAttention.apply(qkv, given[1], HEADS, 0.0), (given[0],))
