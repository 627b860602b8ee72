"""CMLM (Yang et al., EMNLP 2021): masked LM on the next sentence, given the embedding of this one.

Section 2: v = f(s1) is projected to N vectors P(v), which come before the embedded tokens of the masked s2; the encoder
f also predicts the masked tokens. The loss is the mean of -log p(token | s2 masked, P(v)). The paper has no code, so
two details are this project's choice: P is one linear layer, and the N vectors come behind the embedding layer's
LayerNorm and dropout and take no position, so that s2 keeps the positions that it has alone. Shape suffixes: B examples
of this rank, N sequences, P projected vectors, H width, T packed slots, M masked positions.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from cse_train.encoder.backbone import Backbone, own_encoder, require_head
from cse_train.encoder.masked_lm import Masking
from cse_train.encoder.packing import pack_lists
from cse_train.encoder.pooling import SentencePooler
from cse_train.fields import ConfigError
from cse_train.methods.base import Batch, Method, Share, StepOutput, predict_masked
from cse_train.methods.options.cmlm import Config as Config
from cse_train.text.tokens import TokenStore

WHY = "it predicts tokens from vectors in front of them"
"""Reason, for a message, why CMLM needs an encoder of this project."""


def offset(config: Config) -> int:
    """Returns the distance from the row of a sentence to the row that is masked for it."""
    return 1 if config.source == "next" else 0


@dataclass(frozen=True)
class Collate:
    """Collates corpus rows to "text", and "masked": the sentences to predict behind P slots, "at_M" and "target_M"."""

    config: Config
    masking: Masking

    def __call__(self, share: Share) -> Batch:
        column, rows = share.store.column("text"), share.rows
        front = self.config.vectors
        text = pack_lists([column.row(i) for i in rows], pad_id=self.masking.pad_id)
        others = [column.row(i) for i in rows + offset(self.config)]
        behind = [np.concatenate([np.repeat(ids[:1], front), ids]) for ids in others]
        packed, at_M, target_M = self.masking.pack(behind, [share.rng_of(int(i)) for i in rows])
        positions_T = (packed.positions_T - front).clamp(min=0)
        masked = replace(packed, positions_T=positions_T)
        return Batch({"text": text, "masked": masked}, len(rows), {"at_M": at_M, "target_M": target_M})


class CMLM(Method[Config]):
    """CMLM: an encoder and its pooler; in training also the projection and the encoder's masked-LM head."""

    TRAINING_ONLY = ("projection.", "head.")

    @classmethod
    def usable_rows(cls, config: Config, store: TokenStore) -> np.ndarray:
        """Returns all rows, but the last where the next one is read; the next line counts across articles."""
        return np.arange(store.rows - offset(config))

    @classmethod
    def prepare(cls, config: Config, store: TokenStore, backbone: Backbone, cache: Path | None) -> TokenStore:
        """Returns the store as it is; ConfigError where its longest sentence does not fit behind the vectors."""
        encoder, longest = own_encoder(backbone, WHY), int(store.column("text").lengths.max())
        room = encoder.config.max_position_embeddings - encoder.position_offset
        if config.vectors + longest > room:
            line = f"vectors overflow positions: method.vectors={config.vectors} and {longest} tokens, of {room}"
            raise ConfigError([f"{line}; lower either"])
        return store

    @classmethod
    def make_collate(cls, config: Config, tokenizer: Any, max_seq_length: int) -> Collate:
        return Collate(config, Masking.of(tokenizer, config.masking_ratio))

    def __init__(self, config: Config, backbone: Backbone, training: bool = True) -> None:
        """Builds the modules; ConfigError for an encoder without masked-LM head or through `AutoModel`."""
        super().__init__()
        self.config = config
        self.encoder = own_encoder(backbone, WHY)
        self.pooler = SentencePooler(config.pooler, backbone.width)
        self.projection = nn.Linear(backbone.width, config.vectors * backbone.width) if training else None
        self.head = require_head(backbone, "method=cmlm", "another method") if training else None

    def forward(self, batch: Batch) -> StepOutput:
        assert self.projection is not None
        vectors_BH = self.encode(batch.inputs["text"])
        front_BPH = self.projection(vectors_BH).unflatten(1, (self.config.vectors, -1))
        last_TH = self.encoder(batch.inputs["masked"], tokens=True, front_output_NPH=front_BPH).tokens_TH
        at_M, target_M = batch.tensors["at_M"], batch.tensors["target_M"]
        loss, logits_MV = predict_masked(self.head, self.encoder, last_TH, at_M, target_M)
        accuracy = (logits_MV.argmax(1) == target_M).float().sum() / max(1, len(target_M))
        return StepOutput(loss, {"loss": loss.detach(), "mlm_accuracy": accuracy})
