"""Self-attention of one length group as one node of the gradient graph: a copy in, a copy out, nothing in between.

Written out operation by operation, autograd copies queries, keys and values one by one, there and back. The numbers
are the same. Shape suffixes: R rows, W slots of a row, A heads, H hidden size, D head size; G = R * A.
"""

from typing import Any

import torch
from torch import Tensor

from cse_train.modules.dropout import scaled_mask


class GroupAttention(torch.autograd.Function):
    """`GroupAttention.apply(qkv [R, W, 3H], bias [R, 1, 1, W] or None, heads, rate)` gives the mixed heads [R, W, H].

    `rate` is the dropout of the attention weights, 0 outside of training.
    """

    @staticmethod
    def forward(ctx: Any, qkv_RW3H: Tensor, bias: Tensor | None, heads: int, rate: float) -> Tensor:
        rows, width, _ = qkv_RW3H.shape
        parts = qkv_RW3H.view(rows, width, 3, heads, -1).permute(2, 0, 3, 1, 4).flatten(1, 2).contiguous()
        query, key, value = parts
        ctx.heads, ctx.scale = heads, query.shape[-1] ** -0.5
        if bias is None:
            scores = torch.bmm(query, key.mT) * ctx.scale
        else:
            scores = torch.baddbmm(
                bias.view(rows, 1, width).repeat_interleave(heads, 0), query, key.mT, alpha=ctx.scale
            )
        weights = torch.softmax(scores, -1)
        mask = scaled_mask(weights, rate) if rate else None
        ctx.save_for_backward(parts, weights, mask)
        mixed = torch.bmm(weights if mask is None else weights * mask, value)
        return mixed.view(rows, heads, width, -1).transpose(1, 2).reshape(rows, width, -1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        parts, weights, mask = ctx.saved_tensors
        query, key, value = parts
        rows, width, _ = grads[0].shape
        mixed = grads[0].view(rows, width, ctx.heads, -1).transpose(1, 2).flatten(0, 1)
        dropped = weights if mask is None else weights * mask
        by_weights = torch.bmm(mixed, value.mT)
        if mask is not None:
            by_weights *= mask
        by_weights *= weights
        scores = torch.addcmul(by_weights, weights, by_weights.sum(-1, keepdim=True), value=-1.0) * ctx.scale
        found = torch.stack([torch.bmm(scores, key), torch.bmm(scores.mT, query), torch.bmm(dropped.mT, mixed)])
        by_qkv = found.view(3, rows, ctx.heads, width, -1).permute(1, 3, 0, 2, 4)
        return by_qkv.reshape(rows, width, -1), None, None, None
