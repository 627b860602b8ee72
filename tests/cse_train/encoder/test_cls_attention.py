"""The one-node attention of [CLS] against what autograd takes apart, masks included."""

import pytest
import torch
from torch.autograd import gradcheck

from cse_train.encoder.attention import ClsAttention, cls_attention
from cse_train.encoder.packing import Packed
from tests.cse_train.encoder.test_attention import HEADS, LENGTHS, PROMPTS, VIEWS, drawn, packed

WIDTH = 6


def inputs_of(pack: Packed, prompts: bool) -> tuple[torch.Tensor, ...]:
    """Token vectors, what each row asks of them, and the scores of prompts, where there are some."""
    rows = VIEWS * pack.rows
    given = [drawn(5, VIEWS * len(pack.ids_T), WIDTH), drawn(6, rows, HEADS, WIDTH)]
    return (*given, drawn(7, rows, HEADS, PROMPTS)) if prompts else tuple(given)


def by_node(pack: Packed, rate: float, x, asked, prompts=None) -> tuple[torch.Tensor, ...]:
    """In fp64, in which `cls_attention` leaves it to autograd."""
    found = ClsAttention.apply(x, asked, prompts, pack, VIEWS, rate)
    return found if prompts is not None else found[:2]


def plain(pack: Packed, rate: float, x, asked, prompts=None) -> tuple[torch.Tensor, ...]:
    return tuple(part for part in cls_attention(x, asked, pack, VIEWS, rate, prompts) if part is not None)


@pytest.mark.parametrize("prompts", [False, True])
@pytest.mark.parametrize("rate", [0.0, 0.4])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_values_and_gradients_equal_the_plain_ones(lengths, rate, prompts):
    pack = packed(LENGTHS[lengths])
    given, found = inputs_of(pack, prompts), []
    for compute in (by_node, plain):
        torch.manual_seed(1)
        parts = compute(pack, rate, *given)
        generator = torch.Generator().manual_seed(2)
        total = sum((part * torch.randn(part.shape, dtype=torch.float64, generator=generator)).sum() for part in parts)
        found.append([*parts, *torch.autograd.grad(total, given)])
    assert len(found[0]) == (6 if prompts else 4)
    torch.testing.assert_close(*found)


def test_a_row_against_a_loop():
    """One row's words, written out: softmax over prompts and tokens, sums over the tokens alone."""
    pack = packed(LENGTHS["padded"])
    x, asked, prompts = inputs_of(pack, prompts=True)
    context, share, front = plain(pack, 0.0, x, asked, prompts)
    group = pack.groups[0]
    row, head = 1, 1  # of the first view of the first group; its second slot is a token too
    slots = x[row * group.width : (row + 1) * group.width][: int(pack.lengths_N[row])]
    scores = torch.cat([prompts[row, head], torch.stack([asked[row, head] @ slot for slot in slots])])
    weights = scores.exp() / scores.exp().sum()
    torch.testing.assert_close(front[row, head], weights[:PROMPTS])
    torch.testing.assert_close(share[row, head, 0], weights[PROMPTS:].sum())
    torch.testing.assert_close(context[row, head], weights[PROMPTS:] @ slots)


def test_the_gradient_is_the_derivative():
    pack = packed(LENGTHS["padded"])
    assert gradcheck(lambda *given: by_node(pack, 0.0, *given), inputs_of(pack, prompts=True))
    assert gradcheck(lambda *given: by_node(pack, 0.0, *given), inputs_of(pack, prompts=False))


def test_token_vectors_that_want_no_gradient_get_none():
    pack = packed(LENGTHS["padded"])
    x, asked, prompts = inputs_of(pack, prompts=True)
    by_node(pack, 0.0, x.detach(), asked, prompts)[0].sum().backward()
    assert x.grad is None and asked.grad is not None and prompts.grad is not None


def test_fp32_on_a_cpu_takes_the_node():
    pack = packed(LENGTHS["full"])
    x, asked = (one.detach().float().requires_grad_() for one in inputs_of(pack, prompts=False))
    context, _, front = cls_attention(x, asked, pack, VIEWS, 0.0)
    assert type(context.grad_fn).__name__ == "ClsAttentionBackward" and front is None
