"""Attention over packed tokens on a CPU: of all tokens, or of one query per sentence, each one autograd node.

A copy in, a copy out, nothing in between: written out operation by operation, autograd copies queries, keys and values
one by one, there and back, and the groups' once more. The numbers are the same. Shape suffixes: N rows (sequences in
all views, packed order), T packed slots, R rows of a group, W slots of a row, A heads, H hidden size, D head size, P
prompts; G = R * A.
"""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from cse_train.encoder.ops import draw_scaled_mask, dropout
from cse_train.encoder.packing import LengthGroup, Packed

KeysValues = tuple[Tensor, Tensor]
"""Keys and values [rows, A, P, D] of prompts in front of a row's own."""
SAVED_TENSORS = 5
"""Number of tensors per group that `PackedAttention.backward` needs."""


def attend_packed(
    qkv_T3H: Tensor, packed: Packed, views: int, heads: int, rate: float, prompts: KeysValues | None = None
) -> Tensor:
    """Returns the attention's output [T, H], heads joined; prompts are in packed order, all views of a group together.

    `rate` is the dropout of the attention weights, 0 outside of training.
    """
    mixed: Tensor = PackedAttention.apply(qkv_T3H, packed.groups, views, heads, rate, *(prompts or (None, None)))
    return mixed


class PackedAttention(torch.autograd.Function):
    """Autograd function of `attend_packed`; if the slots need no gradient, only the prompts get one.

    bf16 slots are read as fp32, in which everything is computed; the output and the slots' gradient are bf16 again.
    """

    @staticmethod
    def forward(
        ctx: Any,
        qkv_T3H: Tensor,
        groups: tuple[LengthGroup, ...],
        views: int,
        heads: int,
        rate: float,
        keys: Any,
        values: Any,
    ) -> Tensor:
        mixed_TH = qkv_T3H.new_empty(len(qkv_T3H), qkv_T3H.shape[1] // 3)
        ctx.groups, ctx.views, ctx.heads, ctx.prompts = groups, views, heads, 0 if keys is None else keys.shape[2]
        saved: list[Tensor | None] = []
        for group, slots, rows in places(groups, views):
            parts = qkv_T3H[slots].view(-1, group.width, 3, heads, mixed_TH.shape[1] // heads).permute(2, 0, 3, 1, 4)
            prompts = None if keys is None else (keys[rows], values[rows])
            query, key, value = _prepend_prompts(parts, prompts)
            scale, bias = query.shape[-1] ** -0.5, _bias(group, views, heads, ctx.prompts)
            if bias is None:
                scores = torch.bmm(query, key.mT) * scale
            else:
                scores = torch.baddbmm(bias, query, key.mT, alpha=scale)
            weights = torch.softmax(scores, -1)
            mask = draw_scaled_mask(weights, rate) if rate else None
            saved += [query, key, value, weights, mask]
            mixed = torch.bmm(weights if mask is None else weights * mask, value)
            _heads_last(mixed_TH[slots], group, heads).copy_(mixed.view(-1, heads, *mixed.shape[1:]))
        ctx.save_for_backward(*saved)
        return mixed_TH

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        (grad_TH,), saved = grads, ctx.saved_tensors
        needs_qkv, prompts = ctx.needs_input_grad[0], ctx.prompts
        by_qkv = grad_TH.new_empty(len(grad_TH), 3 * grad_TH.shape[1]) if needs_qkv else None
        by_prompts: list[tuple[Tensor, Tensor]] = []
        for index, (group, slots, _) in enumerate(places(ctx.groups, ctx.views)):
            query, key, value, weights, mask = saved[SAVED_TENSORS * index : SAVED_TENSORS * (index + 1)]
            mixed = _make_contiguous(_heads_last(grad_TH[slots], group, ctx.heads)).flatten(0, 1)
            dropped = weights if mask is None else weights * mask
            by_weights = torch.bmm(mixed, value.mT)
            if mask is not None:
                by_weights *= mask
            by_weights *= weights
            # Gradient of softmax, w (g - sum(w g)), where by_weights is w g already.
            scores = torch.addcmul(by_weights, weights, by_weights.sum(-1, keepdim=True), value=-1.0)
            scores *= query.shape[-1] ** -0.5
            if prompts:
                scores_of, dropped_of = scores[..., :prompts], dropped[..., :prompts]
                products = torch.bmm(scores_of.mT, query), torch.bmm(dropped_of.mT, mixed)
                by_keys, by_values = (product.view(-1, ctx.heads, *product.shape[1:]) for product in products)
                by_prompts.append((by_keys, by_values))
            if by_qkv is not None:
                gradients = query.new_empty(3, *query.shape)
                torch.bmm(scores, key, out=gradients[0])
                torch.bmm(scores[..., prompts:].mT, query, out=gradients[1])
                torch.bmm(dropped[..., prompts:].mT, mixed, out=gradients[2])
                parts = by_qkv[slots].view(-1, group.width, 3, ctx.heads, query.shape[-1])
                parts.copy_(gradients.view(3, -1, ctx.heads, *query.shape[1:]).permute(1, 3, 0, 2, 4))
        keys, values = (torch.cat(parts) for parts in zip(*by_prompts, strict=True)) if prompts else (None, None)
        return by_qkv, None, None, None, None, keys, values


def places(groups: tuple[LengthGroup, ...], views: int) -> Iterator[tuple[LengthGroup, slice, slice]]:
    """Yields each group with its slots, and its rows, among those of all views."""
    slot = row = 0
    for group in groups:
        slots, rows = slice(slot, slot + views * group.slots), slice(row, row + views * group.rows)
        yield group, slots, rows
        slot, row = slots.stop, rows.stop


def _heads_last(block_TH: Tensor, group: LengthGroup, heads: int) -> Tensor:
    """Views a group's slots [R * W, H] as [R, A, W, D]."""
    return block_TH.view(-1, group.width, heads, block_TH.shape[1] // heads).transpose(1, 2)


def _bias(group: LengthGroup, views: int, heads: int, prompts: int) -> Tensor | None:
    """Returns the additive bias [G, 1, P + W] of a group's scores, 0 for prompts; None when nothing is padded."""
    if group.bias is None:
        return None
    bias = F.pad(group.bias, (prompts, 0)) if prompts else group.bias
    return bias.view(1, group.rows, 1, 1, -1).expand(views, -1, heads, -1, -1).reshape(-1, 1, bias.shape[-1])


def _prepend_prompts(parts_3RAWD: Tensor, prompts: KeysValues | None) -> tuple[Tensor, Tensor, Tensor]:
    """Returns contiguous queries [G, W, D], and keys and values [G, P + W, D]."""
    if prompts is None:
        query, key, value = _make_contiguous(parts_3RAWD).flatten(1, 2)
        return query, key, value
    query, key, value = _make_contiguous(parts_3RAWD)
    rows = [torch.cat(pair, 2).flatten(0, 1) for pair in zip(prompts, (key, value), strict=True)]
    return query.flatten(0, 1), rows[0], rows[1]


def _make_contiguous(parts: Tensor) -> Tensor:
    """Returns a contiguous tensor in the order of its dimensions, bf16 as fp32; copies at most once."""
    return parts.to(torch.promote_types(parts.dtype, torch.float32), memory_format=torch.contiguous_format)


SAVED_BY_CLS = 2
"""Number of tensors per group that `ClsAttention.backward` needs besides the inputs."""


def cls_attention(
    x_TH: Tensor, asked_NAH: Tensor, packed: Packed, views: int, rate: float, prompts_NAP: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Returns weighted sums of token vectors [N, A, H], sums of their weights [N, A, 1], and prompt weights [N, A, P].

    A token's score is its vector's product with `asked_NAH`; `prompts_NAP` are the scores of prompts in front of the
    tokens. `rate` is the dropout of the attention weights, 0 outside of training.
    """
    if x_TH.dtype == asked_NAH.dtype == torch.float32 and x_TH.device.type == "cpu":  # not so under autocast
        context_NAH, share_NA1, weights_NAP = ClsAttention.apply(x_TH, asked_NAH, prompts_NAP, packed, views, rate)
        return context_NAH, share_NA1, None if prompts_NAP is None else weights_NAP
    groups = []
    for group, slots, rows in places(packed.groups, views):
        block_RWH = x_TH[slots].view(-1, group.width, x_TH.shape[1])
        scores = _scores(block_RWH, asked_NAH[rows], None if prompts_NAP is None else prompts_NAP[rows], group, views)
        weights = dropout(torch.softmax(scores, -1), rate, rate > 0)
        front, tokens = weights.tensor_split([weights.shape[-1] - group.width], -1)
        groups.append((tokens @ block_RWH, tokens.sum(-1, keepdim=True), front))
    context_NAH, share_NA1, weights_NAP = (torch.cat(parts) for parts in zip(*groups, strict=True))
    return context_NAH, share_NA1, None if prompts_NAP is None else weights_NAP


class ClsAttention(torch.autograd.Function):
    """Autograd function of `cls_attention`; without prompts its third result is empty."""

    @staticmethod
    def forward(
        ctx: Any, x_TH: Tensor, asked_NAH: Tensor, prompts_NAP: Tensor | None, packed: Packed, views: int, rate: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        front = 0 if prompts_NAP is None else prompts_NAP.shape[-1]
        context_NAH = torch.empty_like(asked_NAH)
        share_NA1, weights_NAP = (asked_NAH.new_empty(*asked_NAH.shape[:2], size) for size in (1, front))
        ctx.groups, ctx.views, saved = packed.groups, views, []
        for group, slots, rows in places(packed.groups, views):
            block_RWH = x_TH[slots].view(-1, group.width, x_TH.shape[1])
            prompts = None if prompts_NAP is None else prompts_NAP[rows]
            weights = torch.softmax(_scores(block_RWH, asked_NAH[rows], prompts, group, views), -1)
            mask = draw_scaled_mask(weights, rate) if rate else None
            saved += [weights, mask]
            dropped = weights if mask is None else weights * mask
            torch.bmm(dropped[..., front:], block_RWH, out=context_NAH[rows])
            torch.sum(dropped[..., front:], -1, keepdim=True, out=share_NA1[rows])
            weights_NAP[rows] = dropped[..., :front]
        ctx.save_for_backward(x_TH, asked_NAH, *saved)
        return context_NAH, share_NA1, weights_NAP

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        context_NAH, share_NA1, front_NAP = grads
        x_TH, asked_NAH, *saved = ctx.saved_tensors
        front = front_NAP.shape[-1]
        by_x = torch.empty_like(x_TH) if ctx.needs_input_grad[0] else None
        by_asked, by_prompts = torch.empty_like(asked_NAH), torch.empty_like(front_NAP)
        for index, (group, slots, rows) in enumerate(places(ctx.groups, ctx.views)):
            weights, mask = saved[SAVED_BY_CLS * index : SAVED_BY_CLS * (index + 1)]
            block_RWH = x_TH[slots].view(-1, group.width, x_TH.shape[1])
            by_weights = torch.baddbmm(share_NA1[rows], context_NAH[rows], block_RWH.mT)
            if front:
                by_weights = torch.cat([front_NAP[rows], by_weights], -1)
            if mask is not None:
                by_weights *= mask
            by_weights *= weights
            # Gradient of softmax, w (g - sum(w g)), where by_weights is w g already.
            scores = torch.addcmul(by_weights, weights, by_weights.sum(-1, keepdim=True), value=-1.0)
            by_prompts[rows] = scores[..., :front]
            torch.bmm(scores[..., front:], block_RWH, out=by_asked[rows])
            if by_x is not None:
                dropped = weights if mask is None else weights * mask
                factors = torch.cat([scores[..., front:], dropped[..., front:]], 1)
                vectors = torch.cat([asked_NAH[rows], context_NAH[rows]], 1)
                torch.bmm(factors.mT, vectors, out=by_x[slots].view(block_RWH.shape))
        return by_x, by_asked, by_prompts if front else None, None, None, None


def _scores(block_RWH: Tensor, asked_RAH: Tensor, prompts_RAP: Tensor | None, group: LengthGroup, views: int) -> Tensor:
    """Returns attention scores [R, A, P + W] of one group, with the padding's bias added."""
    scores_RAW = asked_RAH @ block_RWH.mT
    if group.bias is not None:
        scores_VNAW = scores_RAW.view(views, group.rows, *scores_RAW.shape[1:])
        scores_RAW = (scores_VNAW + group.bias.squeeze(1)).flatten(0, 1)
    return scores_RAW if prompts_RAP is None else torch.cat([prompts_RAP, scores_RAW], -1)
