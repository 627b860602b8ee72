"""One post-LayerNorm transformer layer over packed sequences: whole, or for position 0 alone.

Shape suffixes: N sequences, V views, T packed slots, R rows of a group (its sequences in all views), W slots of a row,
A heads, H hidden size, D head size, P prompts.
"""

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cse_train.encoder.attention import KeysValues, attend_packed
from cse_train.encoder.cls_attention import cls_attention
from cse_train.encoder.dropout import dropout, dropout_and_add
from cse_train.encoder.linear import linear, linear_gelu
from cse_train.encoder.packing import LengthGroup, Packed

if TYPE_CHECKING:
    from transformers import PretrainedConfig


class Layer(nn.Module):
    """The layer of BERT and RoBERTa with fused query, key and value projections."""

    def __init__(self, config: "PretrainedConfig") -> None:
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        self.heads = config.num_attention_heads
        self.attention_dropout = config.attention_probs_dropout_prob
        self.hidden_dropout = config.hidden_dropout_prob
        self.qkv = nn.Linear(width, 3 * width)
        self.attention_out = nn.Linear(width, width)
        self.attention_norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.inner = nn.Linear(width, inner)
        self.outer = nn.Linear(inner, width)
        self.output_norm = nn.LayerNorm(width, eps=config.layer_norm_eps)

    def forward(self, x_TH: Tensor, packed: Packed, views: int, prompts: KeysValues | None = None) -> Tensor:
        qkv_T3H = linear(x_TH, self.qkv)
        if qkv_T3H.device.type == "cpu" and not torch.is_autocast_enabled("cpu"):
            rate = self.attention_dropout if self.training else 0.0
            return self._rest(attend_packed(qkv_T3H, packed, views, self.heads, rate, prompts), x_TH)
        mixed = []
        prefixes = _by_group(prompts, packed, views)
        for prefix, (group, block) in zip(prefixes, packed.split(qkv_T3H, views), strict=True):
            rows, width, _ = block.shape
            query, key, value = block.view(rows, width, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
            heads = self._attend(query, key, value, group, views, prefix)
            mixed.append(heads.transpose(1, 2).reshape(-1, x_TH.shape[-1]))
        return self._rest(torch.cat(mixed), x_TH)

    def forward_cls(self, x_TH: Tensor, packed: Packed, views: int, prompts: KeysValues | None = None) -> Tensor:
        """The same layer for position 0 of each sequence: [V * N, H] in packed order.

        One query a sentence needs neither keys nor values of all its tokens: q . (K x + k) = (q K) . x + q . k, and
        sum_t w_t (V x_t + v) = V sum_t w_t x_t + v sum_t w_t, so both projections meet one row a sentence and head.
        """
        cls_NH = x_TH.index_select(0, packed.first_VN(views))
        query, key, value = (self._projection(part) for part in range(3))
        query_NAD = torch.einsum("nh,adh->nad", cls_NH, query[0]) + query[1]
        query_NAD = query_NAD * query_NAD.shape[-1] ** -0.5
        asked_NAH = torch.einsum("nad,adh->nah", query_NAD, key[0])
        before_NAP = None
        if prompts is not None:  # the keys' bias adds one number to all of a head's tokens, which else softmax ignores
            own_NA1 = (query_NAD * key[1]).sum(-1, keepdim=True)
            before_NAP = (prompts[0] @ query_NAD.unsqueeze(-1)).squeeze(-1) - own_NA1
        rate = self.attention_dropout if self.training else 0.0
        context_NAH, share_NA1, weights_NAP = cls_attention(x_TH, asked_NAH, packed, views, rate, before_NAP)
        mixed_NAD = torch.einsum("nah,adh->nad", context_NAH, value[0]) + share_NA1 * value[1]
        if prompts is not None and weights_NAP is not None:
            mixed_NAD = mixed_NAD + (weights_NAP.unsqueeze(2) @ prompts[1]).squeeze(2)
        return self._rest(mixed_NAD.flatten(1), cls_NH)

    def _projection(self, part: int) -> tuple[Tensor, Tensor]:
        """Weight [A, D, H] and bias [A, D] of the query (0), key (1) or value (2) projection."""
        width = self.qkv.in_features
        at = slice(part * width, (part + 1) * width)
        return self.qkv.weight[at].view(self.heads, -1, width), self.qkv.bias[at].view(self.heads, -1)

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        group: LengthGroup,
        views: int,
        prefix: KeysValues | None = None,
    ) -> Tensor:
        """Heads [R, A, W, D] mixed; `prefix` stands in front of keys and values."""
        bias = group.bias_of(views)
        if prefix is not None:
            key, value = torch.cat([prefix[0], key], 2), torch.cat([prefix[1], value], 2)
            bias = None if bias is None else F.pad(bias, (prefix[0].shape[2], 0))
        scores = torch.matmul(query * query.shape[-1] ** -0.5, key.transpose(-1, -2))
        if bias is not None:
            scores = scores + bias
        weights = dropout(torch.softmax(scores, -1), self.attention_dropout, self.training)
        return torch.matmul(weights, value)

    def _rest(self, mixed: Tensor, x: Tensor) -> Tensor:
        x = self.attention_norm(
            dropout_and_add(linear(mixed, self.attention_out), x, self.hidden_dropout, self.training)
        )
        inner = linear(linear_gelu(x, self.inner), self.outer)
        return self.output_norm(dropout_and_add(inner, x, self.hidden_dropout, self.training))


def _by_group(prompts: KeysValues | None, packed: Packed, views: int) -> list[KeysValues | None]:
    """The rows of a layer's prompts that belong to each group."""
    if prompts is None:
        return [None] * len(packed.groups)
    sizes = [views * group.rows for group in packed.groups]
    return list(zip(*(part.split(sizes) for part in prompts), strict=True))
