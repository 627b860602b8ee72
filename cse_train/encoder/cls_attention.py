"""Attention of one query per sentence over packed token vectors, on a CPU as one node of the autograd graph.

Shape suffixes: N rows (sequences in all views, packed order), T packed slots, R rows of a group, W slots of a row, A
heads, H hidden size, P prompts.
"""

from typing import Any

import torch
from torch import Tensor

from cse_train.encoder.attention import places
from cse_train.encoder.dropout import draw_scaled_mask, dropout
from cse_train.encoder.packing import LengthGroup, Packed

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
