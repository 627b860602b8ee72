"""The one-node attention against the plain one that autograd takes apart, masks included."""

import pytest
import torch
from torch.autograd import gradcheck

from cse_train.modules.attention import group_attention
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


@pytest.fixture
def prompts() -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values of three prompts."""
    drawn = torch.randn(2, ROWS, HEADS, 3, HEAD, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    return drawn[0].requires_grad_(), drawn[1].requires_grad_()


def plain(qkv: torch.Tensor, bias: torch.Tensor | None, rate: float, prompts=None) -> torch.Tensor:
    query, key, value = qkv.view(ROWS, WIDTH, 3, HEADS, HEAD).permute(2, 0, 3, 1, 4)
    if prompts is not None:
        key, value = (torch.cat(two, 2) for two in zip(prompts, (key, value), strict=True))
        bias = None if bias is None else torch.cat([torch.zeros(ROWS, 1, 1, 3), bias], -1)
    scores = query @ key.mT / HEAD**0.5
    weights = torch.softmax(scores if bias is None else scores + bias, -1)
    if rate:
        weights = weights * scaled_mask(weights, rate)
    return (weights @ value).transpose(1, 2).reshape(ROWS, WIDTH, -1)


def both(compute, *inputs) -> list[list[torch.Tensor]]:
    """Value and gradients of ours and of the plain attention, under the same masks."""
    found = []
    for attention in (group_attention, lambda q, b, _, rate, p: plain(q, b, rate, p)):
        torch.manual_seed(1)
        mixed = compute(attention)
        weight = torch.randn(mixed.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
        found.append([mixed, *torch.autograd.grad((mixed * weight).sum(), inputs)])
    return found


@pytest.mark.parametrize("rate", [0.0, 0.4])
@pytest.mark.parametrize("padded", [False, True])
def test_values_and_gradients_equal_the_plain_ones(given, padded, rate):
    qkv, bias = given[0], given[1] if padded else None
    torch.testing.assert_close(*both(lambda of: of(qkv, bias, HEADS, rate, None), qkv))


@pytest.mark.parametrize("rate", [0.0, 0.4])
@pytest.mark.parametrize("padded", [False, True])
def test_prompts_are_keys_and_values_of_every_row(given, prompts, padded, rate):
    qkv, bias = given[0], given[1] if padded else None
    torch.testing.assert_close(*both(lambda of: of(qkv, bias, HEADS, rate, prompts), qkv, *prompts))
    still = qkv.detach()
    torch.testing.assert_close(*both(lambda of: of(still, bias, HEADS, rate, prompts), *prompts))


def test_the_gradient_is_the_derivative(given, prompts):
    assert gradcheck(lambda qkv: group_attention(qkv, given[1], HEADS, 0.0), (given[0],))
    assert gradcheck(lambda *all_: group_attention(all_[0], given[1], HEADS, 0.0, all_[1:]), (given[0], *prompts))
