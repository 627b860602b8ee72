"""Masked language modelling: inputs with the slots to predict, and the head of BERT and RoBERTa.

Shape suffixes: T packed slots, M masked positions, H hidden size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cse_train.encoder.packing import Packed, pack_lists
from cse_train.text.masking import mask_tokens, no_mask

if TYPE_CHECKING:
    from transformers import PretrainedConfig


@dataclass(frozen=True)
class Masking:
    """Rule by which token ids are masked for a tokenizer; special tokens are never masked."""

    ratio: float
    mask_id: int | None
    pad_id: int | None
    vocab_size: int
    special_ids: tuple[int, ...]

    @classmethod
    def of(cls, tokenizer: Any, ratio: float) -> "Masking":
        """Builds the rule for a tokenizer from its own [MASK], padding and special ids."""
        special = tuple(tokenizer.all_special_ids)
        return cls(ratio, tokenizer.mask_token_id, tokenizer.pad_token_id, len(tokenizer), special)

    def pack(
        self, sequences: Sequence[np.ndarray], rngs: Sequence[np.random.Generator]
    ) -> tuple[Packed, Tensor, Tensor]:
        """Packs sequences of ids, each masked by its own generator; returns (pack, slots [M], true ids [M]).

        The sequences have their special tokens. The pack has the order and the groups that `pack_lists` gives the
        unmasked sequences.
        """
        if self.mask_id is None:
            raise no_mask("the masked-LM loss")
        masked, targets = [], []
        for ids, rng in zip(sequences, rngs, strict=True):
            maskable, sizes = ~np.isin(ids, self.special_ids), {"mask_id": self.mask_id, "vocab_size": self.vocab_size}
            new, chosen = mask_tokens(ids, maskable, ratio=self.ratio, rng=rng, **sizes)
            masked.append(new)
            targets.append(np.where(chosen, ids, -1))
        target_T = pack_lists(targets, pad_id=-1).ids_T
        slots_M = torch.nonzero(target_T >= 0).squeeze(1)
        return pack_lists(masked, pad_id=self.pad_id), slots_M, target_T[slots_M]


class MaskedLMHead(nn.Module):
    """Maps hidden states [M, H] to vocabulary logits [M, vocab_size]; a tied decoder weight is passed to `forward`."""

    decoder: nn.Parameter | None

    def __init__(self, config: "PretrainedConfig") -> None:
        super().__init__()
        self.transform = nn.Linear(config.hidden_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.register_parameter("decoder", None)

    def forward(self, hidden_MH: Tensor, word_embedding: Tensor) -> Tensor:
        decoder = word_embedding if self.decoder is None else self.decoder
        return F.linear(self.transformed(hidden_MH), decoder, self.bias)

    def transformed(self, hidden_MH: Tensor) -> Tensor:
        """Returns the states [M, H] that the decoder multiplies."""
        transformed: Tensor = self.norm(F.gelu(self.transform(hidden_MH)))
        return transformed
