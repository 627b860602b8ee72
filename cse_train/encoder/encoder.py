"""BERT, RoBERTa and models with the same layers, computed exactly and without the padding.

Three savings, none of which changes a number: sequences are packed in length groups (`packing`), the dropout views of
one sentence share the embedding pass up to the first dropout, and the last layer is computed for [CLS] alone, without
keys and values, when nothing else is asked for. Shape suffixes: N sequences, V views, T packed slots, R rows of a
group (its sequences in all views), W slots of a row, A heads, H hidden size, D head size, P prompts.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cse_train import numerics
from cse_train.encoder.attention import KeysValues, attend_packed, cls_attention
from cse_train.encoder.card import Affine, LayerStates, add_and_norm, cast_together, is_fused
from cse_train.encoder.card_attention import Masks, attend_fused, attend_fused_cls, attention_kernels, attention_masks
from cse_train.encoder.folders import FIRST_BEHIND_PADDING, find_unsupported
from cse_train.encoder.ops import dropout, dropout_and_add, linear, linear_gelu
from cse_train.encoder.packing import Packed
from cse_train.fields import ConfigError

if TYPE_CHECKING:
    from transformers import PretrainedConfig


@dataclass(frozen=True)
class Hidden:
    """Results of one forward pass. Token tensors hold V * T slots, views one after the other inside each group."""

    packed: Packed
    views: int
    cls_VNH: Tensor
    """Last layer's states at position 0, in batch order."""
    last_TH: Tensor | None = None
    embedding_TH: Tensor | None = None
    layer1_TH: Tensor | None = None
    states_TH: tuple[Tensor, ...] = ()
    """States after the embeddings and after every layer; empty unless all layers were asked for."""
    skipped: int = 0
    """Number of leading tokens of each sequence that are excluded from means."""

    @property
    def tokens_TH(self) -> Tensor:
        """Last layer's states of all slots, which the pass computed only with `tokens` or `layers`."""
        assert self.last_TH is not None
        return self.last_TH

    def mean_VNH(self, packed_TH: Tensor) -> Tensor:
        """Returns means of token states over each sequence's real positions, special tokens included.

        Source: reference_spec T7.
        """
        means = []
        for group, block in self.packed.split(packed_TH, self.views):
            if group.bias is None:
                means.append(block[:, min(self.skipped, group.width - 1) :].mean(1))
                continue
            mask = (group.bias.view(group.rows, group.width, 1) == 0).to(block.dtype).repeat(self.views, 1, 1)
            mask[:, : self.skipped] = 0
            means.append((block * mask).sum(1) / mask.sum(1).clamp(min=1))
        return self.packed.unsort(means, self.views)

    def last_VNH(self) -> Tensor:
        """Returns the last layer at the last real position of each sequence, in batch order."""
        rows, first = [], 0
        for group, block in self.packed.split(self.tokens_TH, self.views):
            ends = self.packed.lengths_N[first : first + group.rows].repeat(self.views) - 1
            first += group.rows
            rows.append(block[torch.arange(len(block), device=block.device), ends])
        return self.packed.unsort(rows, self.views)


class Encoder(nn.Module):
    """Transformer encoder of one of `PACKED_KINDS`, without pooler, over `Packed` batches.

    Raises ValueError for a configuration that it would not compute exactly; such models go through `AutoModel`.
    """

    def __init__(self, config: "PretrainedConfig") -> None:
        super().__init__()
        reason = find_unsupported(config)
        if reason:
            raise ValueError(reason)
        self.config = config
        self.skipped = 0
        """Number of a prompt's tokens that are excluded from means; 0 where the encoder's folder says to count them."""
        self.position_offset = config.pad_token_id + 1 if config.model_type in FIRST_BEHIND_PADDING else 0
        # No gradient at [PAD], as in transformers. RoBERTa's padding position has none either, and is never read here.
        self.word = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        self.position = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.token_type = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.embedding_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))

    @property
    def width(self) -> int:
        """Hidden size H of the encoder."""
        return int(self.config.hidden_size)

    @property
    def positions(self) -> int:
        """Largest number of tokens that a text may have."""
        return self._room(0)

    def initialise(self, generator: torch.Generator) -> None:
        """Draws every weight as BERT does: N(0, initializer_range), biases 0, LayerNorm 1 and 0."""
        for name, parameter in self.named_parameters():
            with torch.no_grad():
                if name.endswith("bias"):
                    parameter.zero_()
                elif "norm" in name:
                    parameter.fill_(1.0)
                else:
                    parameter.normal_(0.0, self.config.initializer_range, generator=generator)

    def forward(
        self,
        packed: Packed,
        *,
        views: int = 1,
        tokens: bool = False,
        layers: bool = False,
        prompts: "ContinuousPrompts | None" = None,
        cls_word_H: Tensor | None = None,
        cls_output_NH: Tensor | None = None,
        kept_TH: Tensor | None = None,
        front_output_NPH: Tensor | None = None,
    ) -> Hidden:
        """Encodes every sequence `views` times under independent dropout.

        `tokens=False` computes the last layer for [CLS] only and leaves the token tensors of `Hidden` out;
        `layers=True` returns every layer's states as well. `cls_word_H` replaces the word embedding at position 0;
        `cls_output_NH`, one row per sequence and for one view only, replaces the embedding layer's output there, after
        its LayerNorm and dropout (DiffCSE's condition); `kept_TH`, one or H zeros or ones a slot, multiplies the
        embedding layer's output of one view everywhere (ConSERT's cutoffs); `front_output_NPH` replaces it in each
        sequence's first P slots (CMLM). Raises ValueError for a sequence that is longer than the position embeddings.
        """
        device = packed.ids_T.device
        with numerics.bf16_products(device), attention_kernels(device):
            shift = prompts.length if prompts is not None and prompts.shift else 0
            if cls_output_NH is not None:
                front_output_NPH = cls_output_NH.unsqueeze(1)
            longest, room = max(group.needed for group in packed.groups), self._room(shift)
            if longest > room:
                raise ValueError(f"encoder: length={longest} exceeds its {room} positions; lower train.max_seq_length")
            x_TH = self._embed(packed, views, shift, cls_word_H, front_output_NPH)
            if kept_TH is not None:
                assert views == 1, views
                x_TH = x_TH * kept_TH
            states = [x_TH]
            rows, last_index = views * packed.rows, len(self.layers) - 1
            masks: Masks | None = None
            if numerics.is_card(device):  # on a CPU each layer reads the pack
                dtype = numerics.cast_dtype(device) or self.position.weight.dtype
                heads, front = self.config.num_attention_heads, prompts.length if prompts else 0
                masks = attention_masks(packed, views, front, dtype, heads, self.width // heads)
            x = LayerStates(x_TH, x_TH)
            for index, layer in enumerate(self.layers[:-1]):
                x = layer(x, packed, views, prompts.keys_values(index, rows) if prompts else None, masks)
                if index == 0 or layers:
                    states.append(x.full)
            last, prefix = self.layers[-1], prompts.keys_values(last_index, rows) if prompts else None
            if not (tokens or layers):
                assert isinstance(last, Layer)
                cls = last.forward_cls(x, packed, views, prefix, masks)
                cls_VNH = packed.unsort(cls.split([views * g.rows for g in packed.groups]), views)
                return Hidden(packed, views, cls_VNH)
            last_TH = last(x, packed, views, prefix, masks).full
            cls_VNH = packed.unsort([block[:, 0] for _, block in packed.split(last_TH, views)], views)
            states.append(last_TH)
            all_states = tuple(states) if layers else ()
            return Hidden(packed, views, cls_VNH, last_TH, states[0], states[1], all_states, self.skipped)

    def _room(self, shift: int) -> int:
        """Returns the number of positions for a sequence behind `shift` prompts."""
        return int(self.config.max_position_embeddings) - self.position_offset - shift

    def _embed(
        self, packed: Packed, views: int, shift: int, cls_word_H: Tensor | None, front_output_NPH: Tensor | None
    ) -> Tensor:
        words_TH = self.word(packed.ids_T)
        if cls_word_H is not None:
            words_TH = torch.where((packed.positions_T == 0)[:, None], cls_word_H, words_TH)
        places_T = packed.positions_T + self.position_offset + shift
        if max(group.width for group in packed.groups) > self._room(shift):  # of padding, which has no position there
            places_T = places_T.clamp(max=self.config.max_position_embeddings - 1)
        x = words_TH + self.position(places_T)
        x = self.embedding_norm(x + self.token_type.weight[0])
        if views > 1:
            x = torch.cat([t for block in x.split([g.slots for g in packed.groups]) for t in [block] * views])
        x = dropout(x, self.config.hidden_dropout_prob, self.training)
        if front_output_NPH is None:
            return x
        assert views == 1 and len(front_output_NPH) == packed.rows, (views, front_output_NPH.shape)
        slots_NP = packed.first_VN()[:, None] + torch.arange(front_output_NPH.shape[1], device=x.device)
        return x.index_copy(0, slots_NP.flatten(), front_output_NPH[packed.order_N].flatten(0, 1).to(x.dtype))


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
            parts = (
                tensor.split([x_TH.shape[1], 2 * x_TH.shape[1]]) for tensor in (linears[0].weight, linears[0].bias)
            )
            query_map, rest_map = (Affine(*pair) for pair in zip(*parts, strict=True))
            query_NH, kv_T2H = linear(cls_NH, query_map), linear(x.cast, rest_map)
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
            attention_out, inner, outer = linears
            rate = self.hidden_dropout if self.training else 0.0
            # The kernels add the biases of two of the products.
            projected = F.linear(mixed, attention_out.weight)
            middle = add_and_norm(projected, attention_out.bias, x, self.attention_norm, rate)
            widened = F.linear(linear_gelu(middle.cast, inner), outer.weight)
            return add_and_norm(widened, outer.bias, middle.full, self.output_norm, rate)
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


class ContinuousPrompts(nn.Module):
    """P trainable keys and values in every layer, N(0, 0.02) and fp32: 2 * layers * P * H parameters (DCPCSE 3.2).

    Source: PromCSE models.py:21-47 and 385-398; D2CSE section 3. They go in front of the tokens' own keys and values.
    With `shift` the first token has position P, as transformers counts a prefix, else position 0.

    In training each sequence of each view gets them under a dropout mask of its own, at the encoder's hidden rate, so
    that prompts carry augmentation noise too.
    """

    def __init__(self, config: "PretrainedConfig", length: int, *, shift: bool = True, dropout: bool = True) -> None:
        super().__init__()
        self.length = length
        self.shift = shift
        self.heads = config.num_attention_heads
        self.rate = config.hidden_dropout_prob if dropout else 0.0
        shape = (config.num_hidden_layers, 2, length, config.hidden_size)
        self.weight = nn.Parameter(torch.empty(shape).normal_(0.0, 0.02))

    def keys_values(self, layer: int, rows: int) -> tuple[Tensor, Tensor]:
        """Returns the prompts' keys and values of one layer, each [rows, heads, P, D]."""
        size = self.weight.shape[-1] // self.heads
        heads = self.weight[layer].view(2, 1, self.length, self.heads, size).transpose(2, 3)
        key, value = dropout(heads.expand(-1, rows, -1, -1, -1), self.rate, self.training)
        return key, value


class PromptedEncoder(nn.Module):
    """A frozen encoder that is steered by trained prompts alone; its own dropout stays on in training.

    `cls_id` asks for the [CLS] prompt: a trainable word embedding at position 0 that starts as that token's (D2CSE).
    """

    def __init__(self, encoder: Encoder, prompts: ContinuousPrompts, cls_id: int | None = None) -> None:
        super().__init__()
        require_positions(encoder, prompts.length, prompts.shift, tokens=1)
        self.encoder = encoder.requires_grad_(False)
        self.prompts = prompts
        self.cls_word = None if cls_id is None else nn.Parameter(encoder.word.weight[cls_id].detach().clone())

    @property
    def width(self) -> int:
        """Hidden size H of the encoder."""
        return self.encoder.width

    def forward(
        self, packed: Packed, *, views: int = 1, tokens: bool = False, cls_output_NH: Tensor | None = None
    ) -> Hidden:
        """Encodes a pack as `Encoder.forward` does, with the prompts in every layer."""
        return self.encoder(
            packed,
            views=views,
            tokens=tokens,
            prompts=self.prompts,
            cls_word_H=self.cls_word,
            cls_output_NH=cls_output_NH,
        )


def require_positions(encoder: Encoder, length: int, shift: bool, tokens: int) -> None:
    """Raises ConfigError when sequences of `tokens` do not fit behind prompts that shift their positions."""
    room = encoder.config.max_position_embeddings - encoder.position_offset
    if shift and length + tokens > room:
        line = f"prompts overflow positions: method.prompt_length={length} and {tokens} tokens, of {room}"
        raise ConfigError([f"{line}; shorten either, or set method.position_shift=false"])
