"""The one-node attentions, of whole rows and of [CLS], against the plain ones that autograd takes apart."""

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from cse_train.encoder.attention import ClsAttention, attend_packed, cls_attention
from cse_train.encoder.ops import draw_scaled_mask
from cse_train.encoder.packing import Packed, pack

HEADS, HEAD, PROMPTS, VIEWS = 2, 4, 3, 2
LENGTHS = {"padded": [5, 1, 3, 2, 3], "full": [3, 3, 3]}
"""In two groups: one of them is padded to 2 slots and one to 5, or all are full."""


def packed(lengths: list[int]) -> Packed:
    """Sentences of these lengths in two groups, in fp64."""
    sizes = np.array(lengths)
    made = pack(np.zeros(sizes.sum(), dtype=int), np.cumsum(sizes) - sizes, sizes, groups=2)
    for group in made.groups:
        object.__setattr__(group, "bias", None if group.bias is None else group.bias.double())
    return made


def drawn(seed: int, *shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator, requires_grad=True)


def qkv_of(pack: Packed) -> torch.Tensor:
    """Queries, keys and values in one, for all views."""
    return drawn(0, VIEWS * len(pack.ids_T), 3 * HEADS * HEAD)


def prompts_of(pack: Packed) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values of prompts, each row's its own."""
    shape = (VIEWS * pack.rows, HEADS, PROMPTS, HEAD)
    return drawn(3, *shape), drawn(4, *shape)


def plain(qkv: torch.Tensor, pack: Packed, views: int, heads: int, rate: float, prompts=None) -> torch.Tensor:
    mixed, row = [], 0
    for group, block in pack.split(qkv, views):
        rows, width, _ = block.shape
        query, key, value = block.view(rows, width, 3, heads, HEAD).permute(2, 0, 3, 1, 4)
        bias = None if group.bias is None else group.bias.repeat(views, 1, 1, 1)
        if prompts is not None:
            own = [one[row : row + rows] for one in prompts]
            key, value = (torch.cat(two, 2) for two in zip(own, (key, value), strict=True))
            bias = None if bias is None else torch.cat([torch.zeros(rows, 1, 1, PROMPTS), bias], -1)
        scores = query @ key.mT / HEAD**0.5
        weights = torch.softmax(scores if bias is None else scores + bias, -1)
        if rate:
            weights = weights * draw_scaled_mask(weights, rate)
        mixed.append((weights @ value).transpose(1, 2).reshape(rows * width, -1))
        row += rows
    return torch.cat(mixed)


def both(compute, *inputs) -> list[list[torch.Tensor]]:
    """Value and gradients of ours and of the plain attention, under the same masks."""
    found = []
    for attention in (attend_packed, plain):
        torch.manual_seed(1)
        mixed = compute(attention)
        weight = torch.randn(mixed.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
        found.append([mixed, *torch.autograd.grad((mixed * weight).sum(), inputs)])
    return found


@pytest.mark.parametrize("rate", [0.0, 0.4])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_values_and_gradients_equal_the_plain_ones(lengths, rate):
    pack = packed(LENGTHS[lengths])
    assert [group.bias is None for group in pack.groups] == [lengths == "full"] * 2
    qkv = qkv_of(pack)
    torch.testing.assert_close(*both(lambda of: of(qkv, pack, VIEWS, HEADS, rate), qkv))


@pytest.mark.parametrize("rate", [0.0, 0.4])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_prompts_are_keys_and_values_of_every_row(lengths, rate):
    pack = packed(LENGTHS[lengths])
    qkv, prompts = qkv_of(pack), prompts_of(pack)
    torch.testing.assert_close(*both(lambda of: of(qkv, pack, VIEWS, HEADS, rate, prompts), qkv, *prompts))
    still = qkv.detach()
    torch.testing.assert_close(*both(lambda of: of(still, pack, VIEWS, HEADS, rate, prompts), *prompts))


def test_the_gradient_is_the_derivative():
    pack = packed(LENGTHS["padded"])
    qkv, prompts = qkv_of(pack), prompts_of(pack)
    assert gradcheck(lambda one: attend_packed(one, pack, VIEWS, HEADS, 0.0), (qkv,))
    assert gradcheck(lambda *all_: attend_packed(all_[0], pack, VIEWS, HEADS, 0.0, all_[1:]), (qkv, *prompts))


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


def plain_cls(pack: Packed, rate: float, x, asked, prompts=None) -> tuple[torch.Tensor, ...]:
    return tuple(part for part in cls_attention(x, asked, pack, VIEWS, rate, prompts) if part is not None)


@pytest.mark.parametrize("prompts", [False, True])
@pytest.mark.parametrize("rate", [0.0, 0.4])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_values_and_gradients_of_cls_equal_the_plain_ones(lengths, rate, prompts):
    pack = packed(LENGTHS[lengths])
    given, found = inputs_of(pack, prompts), []
    for compute in (by_node, plain_cls):
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
    context, share, front = plain_cls(pack, 0.0, x, asked, prompts)
    group = pack.groups[0]
    row, head = 1, 1  # of the first view of the first group; its second slot is a token too
    slots = x[row * group.width : (row + 1) * group.width][: int(pack.lengths_N[row])]
    scores = torch.cat([prompts[row, head], torch.stack([asked[row, head] @ slot for slot in slots])])
    weights = scores.exp() / scores.exp().sum()
    torch.testing.assert_close(front[row, head], weights[:PROMPTS])
    torch.testing.assert_close(share[row, head, 0], weights[PROMPTS:].sum())
    torch.testing.assert_close(context[row, head], weights[PROMPTS:] @ slots)


def test_the_gradient_of_cls_is_the_derivative():
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
