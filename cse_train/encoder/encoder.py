"""BERT, RoBERTa and models with the same layers, computed exactly and without the padding.

Three savings, none of which changes a number: sequences are packed in length groups (`packing`), the dropout views of
one sentence share the embedding pass up to the first dropout, and the last layer is computed for [CLS] alone, without
keys and values, when nothing else is asked for. Shape suffixes: N sequences, V views, T packed slots, H hidden size, D
head size.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor, nn

from cse_train import numerics
from cse_train.encoder.card.fused_attention import Masks, attention_kernels, attention_masks
from cse_train.encoder.card.fused_norm import LayerStates
from cse_train.encoder.dropout import dropout
from cse_train.encoder.kinds import FIRST_BEHIND_PADDING, find_unsupported
from cse_train.encoder.layer import Layer
from cse_train.encoder.packing import Packed

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
        assert self.last_TH is not None
        rows, first = [], 0
        for group, block in self.packed.split(self.last_TH, self.views):
            ends = self.packed.lengths_N[first : first + group.rows].repeat(self.views) - 1
            first += group.rows
            rows.append(block[torch.arange(len(block), device=block.device), ends])
        return self.packed.unsort(rows, self.views)


class PromptVectors(Protocol):
    """Continuous prompts: keys and values of their own in every layer, in front of the tokens' (DCPCSE 3.2)."""

    length: int
    """Number P of prompts in each layer."""
    shift: bool
    """True if the first token has position P, as transformers counts a prefix; False for position 0."""

    def keys_values(self, layer: int, rows: int) -> tuple[Tensor, Tensor]:
        """Returns key and value [rows, heads, P, D] of one layer, one row for every sequence of every view."""
        ...


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
        prompts: PromptVectors | None = None,
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
            self._check_length(packed, shift)
            x_TH = self._embed(packed, views, shift, cls_word_H, front_output_NPH)
            if kept_TH is not None:
                assert views == 1, views
                x_TH = x_TH * kept_TH
            states = [x_TH]
            rows, last_index = views * packed.rows, len(self.layers) - 1
            masks = self._masks(packed, views, prompts.length if prompts else 0)
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

    def _masks(self, packed: Packed, views: int, prompts: int) -> Masks | None:
        """Returns the attention masks of all layers on a GPU; None on a CPU, where each layer reads the pack."""
        device = packed.ids_T.device
        if not numerics.is_card(device):
            return None
        dtype, heads = numerics.cast_dtype(device) or self.position.weight.dtype, self.config.num_attention_heads
        return attention_masks(packed, views, prompts, dtype, heads, self.width // heads)

    def _check_length(self, packed: Packed, shift: int) -> None:
        longest, room = max(group.needed for group in packed.groups), self._room(shift)
        if longest > room:
            raise ValueError(f"encoder: length={longest} exceeds its {room} positions; lower train.max_seq_length")

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
