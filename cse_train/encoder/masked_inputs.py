"""Packs inputs for masked-LM losses, with the slots to predict and the true ids there.

Shape suffixes: T packed slots, M masked positions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cse_train.encoder.packing import Packed, pack_lists
from cse_train.text.masking import mask_tokens, no_mask


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
        masked, targets = [], []
        for ids, rng in zip(sequences, rngs, strict=True):
            new, chosen = self._mask(ids, rng)
            masked.append(new)
            targets.append(np.where(chosen, ids, -1))
        target_T = pack_lists(targets, pad_id=-1).ids_T
        slots_M = torch.nonzero(target_T >= 0).squeeze(1)
        return pack_lists(masked, pad_id=self.pad_id), slots_M, target_T[slots_M]

    def _mask(self, ids: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        if self.mask_id is None:
            raise no_mask("the masked-LM loss")
        maskable = ~np.isin(ids, self.special_ids)
        return mask_tokens(ids, maskable, ratio=self.ratio, mask_id=self.mask_id, vocab_size=self.vocab_size, rng=rng)
