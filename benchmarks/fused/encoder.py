"""BERT and RoBERTa with the weights of K runs: what `encoder.encoder` computes for one, without the padding's slots.

Every product is one of K matrices. Only [CLS] of the last layer is computed. Shape suffixes: K runs, V views, N
sequences of a run, T slots of a run in all views, R rows of a group, W slots of a row, H hidden size, A heads, D head
size, I inputs, O outputs.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.fused.packing import FusedGroup, FusedPacked
from cse_train.encoder import dropout as one_rate
from cse_train.encoder.kinds import FIRST_BEHIND_PADDING

if TYPE_CHECKING:
    from transformers import PretrainedConfig

Weights = Mapping[str, Tensor]
"""Name -> [K, ...], as `FusedWeights.views` gives them."""


def linear(x_KTI: Tensor, weight_KOI: Tensor, bias_KO: Tensor) -> Tensor:
    return torch.baddbmm(bias_KO.unsqueeze(1), x_KTI, weight_KOI.mT)


def dropout(x: Tensor, rates: Sequence[float]) -> Tensor:
    """Dropout of [K, ...] where each run has a rate of its own; the masks are drawn together."""
    if len(set(rates)) == 1:
        return one_rate.dropout(x, rates[0], training=True)
    kept = 1 - torch.tensor(rates, device=x.device, dtype=x.dtype).view(-1, *[1] * (x.ndim - 1))
    return x * (torch.rand_like(x) < kept) / kept


class FusedEncoder:
    """The training pass of K encoders of one shape; `hidden` and `attention` are the runs' dropout rates."""

    def __init__(self, config: "PretrainedConfig", hidden: Sequence[float], attention: Sequence[float]) -> None:
        self.heads, self.layers = config.num_attention_heads, config.num_hidden_layers
        self.position_offset = config.pad_token_id + 1 if config.model_type in FIRST_BEHIND_PADDING else 0
        self.eps = config.layer_norm_eps
        self.hidden, self.attention = tuple(hidden), tuple(attention)

    def __call__(self, packed: FusedPacked, weights: Weights, views: int) -> Tensor:
        """[K, V, N, H]: the last layer at position 0 under independent dropout, in packed order."""
        x_KTH = packed.in_views(self._embedded(packed, weights), views)
        x_KTH = dropout(x_KTH, self.hidden)
        for index in range(self.layers - 1):
            x_KTH = self._layer(x_KTH, packed, weights, f"encoder.layers.{index}.", views)
        return self._last(x_KTH, packed, weights, f"encoder.layers.{self.layers - 1}.", views)

    def _embedded(self, packed: FusedPacked, weights: Weights) -> Tensor:
        words_KVH = weights["encoder.word.weight"]
        firsts_K1 = torch.arange(len(words_KVH), device=words_KVH.device)[:, None] * words_KVH.shape[1]
        x = F.embedding(packed.ids_KU + firsts_K1, words_KVH.flatten(0, 1))
        x = x + weights["encoder.position.weight"].index_select(1, packed.positions_U + self.position_offset)
        x = x + weights["encoder.token_type.weight"][:, :1]
        return self._norm(x, weights, "encoder.embedding_norm")

    def _norm(self, x_KTH: Tensor, weights: Weights, name: str) -> Tensor:
        normal = F.layer_norm(x_KTH, x_KTH.shape[-1:], eps=self.eps)
        return torch.addcmul(weights[f"{name}.bias"].unsqueeze(1), normal, weights[f"{name}.weight"].unsqueeze(1))

    def _layer(self, x_KTH: Tensor, packed: FusedPacked, weights: Weights, name: str, views: int) -> Tensor:
        qkv_KT3H = linear(x_KTH, weights[f"{name}qkv.weight"], weights[f"{name}qkv.bias"])
        mixed = []
        for group, block in packed.split(qkv_KT3H, views):
            query, key, value = self._heads(block, 3)
            mixed.append(self._attend(query, key, value, group).flatten(1, 3))
        return self._rest(torch.cat(mixed, 1), x_KTH, weights, name)

    def _last(self, x_KTH: Tensor, packed: FusedPacked, weights: Weights, name: str, views: int) -> Tensor:
        width = x_KTH.shape[-1]
        weight, bias = weights[f"{name}qkv.weight"], weights[f"{name}qkv.bias"]
        keys_values = linear(x_KTH, weight[:, width:], bias[:, width:])
        firsts = [block[:, :, :, 0].flatten(1, 2) for _, block in packed.split(x_KTH, views)]
        sizes = [first.shape[1] for first in firsts]
        cls_KNH = torch.cat(firsts, 1)
        queries = linear(cls_KNH, weight[:, :width], bias[:, :width]).split(sizes, 1)
        mixed = []
        for (group, block), asked in zip(packed.split(keys_values, views), queries, strict=True):
            (query,) = self._heads(asked.view(len(asked), views, group.rows, 1, width), 1)
            key, value = self._heads(block, 2)
            mixed.append(self._attend(query, key, value, group).flatten(1, 3))
        cls_KNH = self._rest(torch.cat(mixed, 1), cls_KNH, weights, name)
        parts = [part.view(len(part), views, -1, width) for part in cls_KNH.split(sizes, 1)]
        return torch.cat(parts, 2)

    def _heads(self, block_KVRWH: Tensor, parts: int) -> Sequence[Tensor]:
        """Each part as [K, V, R, A, W, D]."""
        block = block_KVRWH.unflatten(-1, (parts, self.heads, -1))
        return block.permute(4, 0, 1, 2, 5, 3, 6).unbind(0)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, group: FusedGroup) -> Tensor:
        """[K, V, R, W of the query, H]."""
        scores = torch.matmul(query * query.shape[-1] ** -0.5, key.mT)
        if group.bias is not None:
            scores = scores + group.bias
        weights = dropout(torch.softmax(scores, -1), self.attention)
        return torch.matmul(weights.to(value.dtype), value).transpose(3, 4).flatten(-2)

    def _rest(self, mixed: Tensor, x: Tensor, weights: Weights, name: str) -> Tensor:
        out = linear(mixed, weights[f"{name}attention_out.weight"], weights[f"{name}attention_out.bias"])
        x = self._norm(x + dropout(out, self.hidden), weights, f"{name}attention_norm")
        inner = F.gelu(linear(x, weights[f"{name}inner.weight"], weights[f"{name}inner.bias"]))
        out = linear(inner, weights[f"{name}outer.weight"], weights[f"{name}outer.bias"])
        return self._norm(x + dropout(out, self.hidden), weights, f"{name}output_norm")
