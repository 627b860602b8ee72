"""Post-LayerNorm transformer layer over packed sequences, computed for all positions or for position 0 alone.

Shape suffixes: N sequences, V views, T packed slots, R rows of a group (its sequences in all views), W slots of a row,
A heads, H hidden size, D head size, P prompts.
"""

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cse_train import numerics
from cse_train.encoder.attention import KeysValues, attend_packed
from cse_train.encoder.card.cast_weights import Affine, cast_together
from cse_train.encoder.card.fused_attention import Masks, attend_fused, attend_fused_cls
from cse_train.encoder.card.fused_norm import LayerStates, add_and_norm, is_fused
from cse_train.encoder.cls_attention import cls_attention
from cse_train.encoder.dropout import dropout_and_add
from cse_train.encoder.linear import linear, linear_gelu
from cse_train.encoder.packing import Packed

if TYPE_CHECKING:
    from transformers import PretrainedConfig

GRAPH_LIMIT = 10_000
"""Limit of torch.compile's recompilations in one process, which may train many encoders.

It is high because a run's numbers must not depend on the runs before it.
"""


class Layer(nn.Module):
    """Transformer layer of BERT and RoBERTa with fused query, key and value projections."""

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
        self.compiler: str | None = None
        """Backend of torch.compile for this layer, set by `compile_layers`; None for eager."""

    def forward(
        self, x: LayerStates, packed: Packed, views: int, prompts: KeysValues | None = None, masks: Masks | None = None
    ) -> LayerStates:
        """Maps hidden states [T, H] to [T, H]; `masks` come from `attention_masks`, on a GPU only."""
        qkv, *linears = self._linears(x.full.device)
        qkv_T3H = linear(x.cast, qkv)
        rate = self.attention_dropout if self.training else 0.0
        if masks is None:
            return self._rest(attend_packed(qkv_T3H, packed, views, self.heads, rate, prompts), x.full, *linears)
        return self._rest(attend_fused(qkv_T3H, packed, views, self.heads, rate, masks, prompts), x.full, *linears)

    def forward_cls(
        self, x: LayerStates, packed: Packed, views: int, prompts: KeysValues | None = None, masks: Masks | None = None
    ) -> Tensor:
        """Computes the layer for position 0 of each sequence only: [V * N, H] in packed order.

        One query a sentence needs neither keys nor values of all its tokens: q . (K x + k) = (q K) . x + q . k, and
        sum_t w_t (V x_t + v) = V sum_t w_t x_t + v sum_t w_t, so both projections meet one row a sentence and head. On
        a GPU the product that this saves costs less than the kernels that it takes, and with the kernels of short rows
        all queries cost less than one a row with torch's.
        """
        x_TH, first = x.full, packed.first_VN(views)
        cls_NH = x_TH.index_select(0, first)
        rate = self.attention_dropout if self.training else 0.0
        linears = self._linears(x_TH.device)
        if masks is not None and masks.places_N5 is not None:
            mixed_TH = attend_fused(linear(x.cast, linears[0]), packed, views, self.heads, rate, masks, prompts)
            return self._rest(mixed_TH.index_select(0, first), cls_NH, *linears[1:]).full
        if masks is not None:
            query_NH, kv_T2H = _query_and_rest(cls_NH, x.cast, linears[0])
            mixed_NH = attend_fused_cls(query_NH, kv_T2H, packed, views, self.heads, rate, masks, prompts)
            return self._rest(mixed_NH, cls_NH, *linears[1:]).full
        query, key, value = (self._projection(part) for part in range(3))
        query_NAD = torch.einsum("nh,adh->nad", cls_NH, query[0]) + query[1]
        query_NAD = query_NAD * query_NAD.shape[-1] ** -0.5
        asked_NAH = torch.einsum("nad,adh->nah", query_NAD, key[0])
        before_NAP = None
        if prompts is not None:  # the keys' bias adds one number to all of a head's tokens, which else softmax ignores
            own_NA1 = (query_NAD * key[1]).sum(-1, keepdim=True)
            before_NAP = (prompts[0] @ query_NAD.unsqueeze(-1)).squeeze(-1) - own_NA1
        context_NAH, share_NA1, weights_NAP = cls_attention(x_TH, asked_NAH, packed, views, rate, before_NAP)
        mixed_NAD = torch.einsum("nah,adh->nad", context_NAH, value[0]) + share_NA1 * value[1]
        if prompts is not None and weights_NAP is not None:
            mixed_NAD = mixed_NAD + (weights_NAP.unsqueeze(2) @ prompts[1]).squeeze(2)
        return self._rest(mixed_NAD.flatten(1), cls_NH, *linears[1:]).full

    def _projection(self, part: int) -> tuple[Tensor, Tensor]:
        """Returns weight [A, D, H] and bias [A, D] of the query (0), key (1) or value (2) projection."""
        width = self.qkv.in_features
        rows = slice(part * width, (part + 1) * width)
        return self.qkv.weight[rows].view(self.heads, -1, width), self.qkv.bias[rows].view(self.heads, -1)

    def _linears(self, device: torch.device) -> Sequence[nn.Linear | Affine]:
        """Returns the layer's four linear maps (qkv, attention_out, inner, outer), on a GPU in autocast's dtype."""
        layers = (self.qkv, self.attention_out, self.inner, self.outer)
        dtype = numerics.cast_dtype(device)
        return layers if dtype is None or dtype == self.qkv.weight.dtype else cast_together(layers, dtype)

    def _rest(self, mixed: Tensor, x: Tensor, *linears: nn.Linear | Affine) -> LayerStates:
        """Computes the part of the layer behind the attention, for any number of rows."""
        if is_fused(mixed):  # on an H200 0.85 times as long as what the compiler makes
            return self._fuse_rest(mixed, x, *linears)
        rest = _compiled_rest(self.compiler) if self.compiler and self.training else Layer._compute_rest
        y = rest(self, mixed, x, *linears)
        return LayerStates(y, y)

    def _compute_rest(
        self,
        mixed: Tensor,
        x: Tensor,
        attention_out: nn.Linear | Affine,
        inner: nn.Linear | Affine,
        outer: nn.Linear | Affine,
    ) -> Tensor:
        x = self.attention_norm(dropout_and_add(linear(mixed, attention_out), x, self.hidden_dropout, self.training))
        widened = linear(linear_gelu(x, inner), outer)
        return self.output_norm(dropout_and_add(widened, x, self.hidden_dropout, self.training))

    def _fuse_rest(
        self,
        mixed: Tensor,
        x: Tensor,
        attention_out: nn.Linear | Affine,
        inner: nn.Linear | Affine,
        outer: nn.Linear | Affine,
    ) -> LayerStates:
        """Computes `_compute_rest` with fused GPU kernels, which add the biases of two products."""
        rate = self.hidden_dropout if self.training else 0.0
        projected = F.linear(mixed, attention_out.weight)
        middle = add_and_norm(projected, attention_out.bias, x, self.attention_norm, rate)
        widened = F.linear(linear_gelu(middle.cast, inner), outer.weight)
        return add_and_norm(widened, outer.bias, middle.full, self.output_norm, rate)


def compile_layers(model: nn.Module, backend: str = "inductor") -> None:
    """Lets torch.compile fuse what each layer computes behind its attention, while `model` trains.

    One graph serves all layers and any number of rows. Attention is one kernel already, and its length groups, whose
    numbers and widths change from batch to batch, would need a graph each.
    """
    for name in ("recompile_limit", "accumulated_recompile_limit"):  # behind it torch computes eagerly, without a word
        setattr(torch._dynamo.config, name, GRAPH_LIMIT)
    for module in model.modules():
        if isinstance(module, Layer):
            module.compiler = backend


@functools.cache
def _compiled_rest(backend: str) -> Callable[..., Tensor]:
    """Returns `Layer._compute_rest` compiled for any number of rows; torch compiles it at its first call."""
    return torch.compile(Layer._compute_rest, backend=backend, dynamic=True)


def _query_and_rest(cls_NH: Tensor, x_TH: Tensor, qkv: nn.Linear | Affine) -> tuple[Tensor, Tensor]:
    """Returns queries [N, H] of position 0, and keys and values [T, 2H] of all slots."""
    sizes = [x_TH.shape[1], 2 * x_TH.shape[1]]
    query, keys_values = (Affine(*pair) for pair in zip(qkv.weight.split(sizes), qkv.bias.split(sizes), strict=True))
    return linear(cls_NH, query), linear(x_TH, keys_values)
