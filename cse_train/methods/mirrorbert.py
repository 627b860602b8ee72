"""Mirror-BERT (Liu et al., EMNLP 2021): a text and itself, one copy with a masked span, both under dropout.

Shape suffixes: B examples of this rank, G of all ranks, H width.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor

from cse_train.distributed import gather_with_grad
from cse_train.encoder.backbone import Backbone
from cse_train.encoder.packing import Packed, pack_lists
from cse_train.encoder.pooling import SentencePooler
from cse_train.losses import nt_xent, view_statistics
from cse_train.methods.base import Batch, Method, Share, StepOutput
from cse_train.methods.options.mirrorbert import Config as Config
from cse_train.text.masking import require_mask

SHORTEST = 30
"""Characters of the shortest text in which a span is masked (released data_loader.py)."""


TEST_LENGTH = 64
"""Tokens of a padded text at test time (released eval.py, maxlen)."""
MASK = "[MASK]"
"""Text that the released code writes for a masked span, whatever the tokenizer's mask is."""


def _counts_padding(config: Config) -> bool:
    """Returns whether the vectors at [PAD] are averaged into an embedding."""
    return config.pooler == "mean" and config.padding == "averaged"


@dataclass(frozen=True)
class Collate:
    """Collates corpus rows to one pack: the texts as they are, then each again with a masked span (section 2.1)."""

    config: Config
    tokenizer: Any
    max_length: int

    def __call__(self, share: Share) -> Batch:
        column, rows = share.store.column("text"), share.rows.tolist()
        texts = [column.row(i) for i in rows]
        masked = [self.masked(ids, share.rng_of(i)) for ids, i in zip(texts, rows, strict=True)]
        width = self.max_length if _counts_padding(self.config) else None
        return Batch({"text": pack_lists(texts + masked, pad_id=self.tokenizer.pad_token_id, width=width)}, len(rows))

    def masked(self, ids: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Returns the ids of the text with [MASK] for a span anywhere in it; the rest of a cut word is tokenised again.

        The text is what the tokenizer decodes from the ids, truncated as they are.
        """
        text = self.tokenizer.decode(ids[1:-1], clean_up_tokenization_spaces=False)
        if not self.config.span or len(text) < max(SHORTEST, self.config.span + 1):
            return ids
        start = int(rng.integers(len(text) - self.config.span))
        mask = self.tokenizer.mask_token
        if self.config.masking == "released":
            start, mask = text.index(text[start : start + self.config.span]), MASK
        parts = text[:start], mask, text[start + self.config.span :]
        return np.array(self.tokenizer(" ".join(parts), truncation=True, max_length=self.max_length)["input_ids"])


class MirrorBERT(Method[Config]):
    """Mirror-BERT: an encoder and its pooler; where padding counts, the pooler is a mean over all slots."""

    @classmethod
    def make_collate(cls, config: Config, tokenizer: Any, max_seq_length: int) -> Collate:
        """Returns the collate function of a configuration. ConfigError where the tokenizer lacks the mask."""
        if config.span and config.masking != "released":  # which writes [MASK] whatever the tokenizer calls it
            require_mask(tokenizer, f"method.span={config.span}")
        return Collate(config, tokenizer, max_seq_length)

    def __init__(self, config: Config, backbone: Backbone, training: bool = True) -> None:
        super().__init__()
        self.temperature, self.padded = config.temperature, _counts_padding(config)
        self.encoder = backbone.encoder
        self.pooler = None if self.padded else SentencePooler(config.pooler, backbone.encoder.width)
        self.pad_id = backbone.tokenizer.pad_token_id or 0
        self.test_length = min(TEST_LENGTH, getattr(backbone.encoder, "positions", None) or TEST_LENGTH)

    def forward(self, batch: Batch) -> StepOutput:
        """Computes equation 1: each of the 2G vectors finds its partner among the others."""
        embedded = self._pool(batch.inputs["text"]).split(batch.examples)
        one_GH, two_GH = (gather_with_grad(view_BH) for view_BH in embedded)
        loss = nt_xent(one_GH, two_GH, self.temperature)
        return StepOutput(loss, {"loss": loss.detach(), **view_statistics(one_GH, two_GH)})

    def encode(self, packed: Packed) -> Tensor:
        """Embeds packed texts at test time, [N, H]; where padding counts, texts are cut and padded to one length."""
        if not self.padded:
            return self._pool(packed)
        last = self.test_length - 1
        rows = [np.append(ids[:last], ids[last:][-1:]) for ids in packed.unpacked(packed.ids_T)]
        return self._pool(pack_lists(rows, pad_id=self.pad_id, width=last + 1).to(packed.ids_T.device))

    def _pool(self, packed: Packed) -> Tensor:
        if self.pooler is not None:
            return self.pooler(self.encoder(packed, tokens=self.pooler.needs_tokens))[0]
        if getattr(self.encoder, "position_offset", 0):  # RoBERTa's padding has one position, before the first token's
            packed = replace(packed, positions_T=packed.positions_T.where(packed.attended_T(), -1))
        last_TH = self.encoder(packed, tokens=True).tokens_TH
        return packed.unsort([block.mean(1) for _, block in packed.split(last_TH)], 1)[0]
