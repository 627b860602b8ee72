"""Self-attention of one length group as one node of the gradient graph: a copy in, a copy out, nothing in between.

Written out operation by operation, autograd copies queries, keys and values one by one, there and back. The numbers
are the same. Shape suffixes: R rows, W slots of a row, A heads, H hidden size, D head size, P prompts; G = R * A.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from cse_train.modules.dropout import scaled_mask

KeysValues = tuple[Tensor, Tensor]
"""Prompts in front of a row's own keys and values: keys and values [R, A, P, D]."""


def group_attention(
    qkv_RW3H: Tensor, bias: Tensor | None, heads: int, rate: float, prompts: KeysValues | None = None
) -> Tensor:
    """The mixed heads [R, W, H]; bias [R, 1, 1, W] or None.

    `rate` is the dropout of the attention weights, 0 outside of training.
    """
    mixed: Tensor = GroupAttention.apply(qkv_RW3H, bias, heads, rate, *(prompts or (None, None)))
    return mixed


class GroupAttention(torch.autograd.Function):
    """What `group_attention` applies. Where the rows themselves need no gradient, only the prompts get one."""

    @staticmethod
    def forward(
        ctx: Any, qkv_RW3H: Tensor, bias: Tensor | None, heads: int, rate: float, keys: Any, values: Any
    ) -> Tensor:
        rows, width, _ = qkv_RW3H.shape
        parts = qkv_RW3H.view(rows, width, 3, heads, -1).permute(2, 0, 3, 1, 4)
        query, key, value = _beside_prompts(parts, keys, values)
        ctx.heads, ctx.scale, ctx.prompts = heads, query.shape[-1] ** -0.5, key.shape[1] - width
        if bias is None:
            scores = torch.bmm(query, key.mT) * ctx.scale
        else:
            bias = bias.view(rows, 1, width)
            bias = F.pad(bias, (ctx.prompts, 0)) if ctx.prompts else bias
            scores = torch.baddbmm(bias.repeat_interleave(heads, 0), query, key.mT, alpha=ctx.scale)
        weights = torch.softmax(scores, -1)
        mask = scaled_mask(weights, rate) if rate else None
        ctx.save_for_backward(query, key, value, weights, mask)
        mixed = torch.bmm(weights if mask is None else weights * mask, value)
        return mixed.view(rows, heads, width, -1).transpose(1, 2).reshape(rows, width, -1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, weights, mask = ctx.saved_tensors
        rows, width, _ = grads[0].shape
        mixed = grads[0].view(rows, width, ctx.heads, -1).transpose(1, 2).flatten(0, 1)
        dropped = weights if mask is None else weights * mask
        by_weights = torch.bmm(mixed, value.mT)
        if mask is not None:
            by_weights *= mask
        by_weights *= weights
        scores = torch.addcmul(by_weights, weights, by_weights.sum(-1, keepdim=True), value=-1.0) * ctx.scale
        keys = values = None
        if ctx.prompts:
            scores_of, dropped_of = scores[..., : ctx.prompts], dropped[..., : ctx.prompts]
            keys = torch.bmm(scores_of.mT, query).view(rows, ctx.heads, ctx.prompts, -1)
            values = torch.bmm(dropped_of.mT, mixed).view(rows, ctx.heads, ctx.prompts, -1)
        if not ctx.needs_input_grad[0]:
            return None, None, None, None, keys, values
        own, kept = scores[..., ctx.prompts :], dropped[..., ctx.prompts :]
        found = torch.stack([torch.bmm(scores, key), torch.bmm(own.mT, query), torch.bmm(kept.mT, mixed)])
        by_qkv = found.view(3, rows, ctx.heads, width, -1).permute(1, 3, 0, 2, 4)
        return by_qkv.reshape(rows, width, -1), None, None, None, keys, values


def _beside_prompts(parts_3RAWD: Tensor, keys: Tensor | None, values: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Queries [G, W, D], and keys and values [G, P + W, D], each lying in one piece."""
    if keys is None or values is None:
        query, key, value = parts_3RAWD.flatten(1, 2).contiguous()
        return query, key, value
    query, key, value = parts_3RAWD
    joined = [torch.cat(two, 2).flatten(0, 1) for two in ((keys, key), (values, value))]
    return query.flatten(0, 1), joined[0], joined[1]
