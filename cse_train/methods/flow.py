"""BERT-flow (Li et al., EMNLP 2020): an invertible map of frozen sentence embeddings to a standard normal.

The map trains by maximum likelihood (eq. 4).

Shape suffixes: N sequences, D embedding size.
"""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from cse_train.backbone.backbone import Backbone
from cse_train.distributed import all_gather_rows
from cse_train.encoder.packing import Packed, pack_lists
from cse_train.fields import ConfigError
from cse_train.losses import bits_per_dimension
from cse_train.methods.base import Batch, Method, Share, StepOutput
from cse_train.methods.options.flow import Config as Config
from cse_train.modules.frozen_encoder import FrozenEncoder
from cse_train.modules.glow import Glow
from cse_train.text.tokens import TokenStore


class Flow(FrozenEncoder, Method[Config]):
    """BERT-flow: a frozen encoder and the flow that trains behind it, in fp32."""

    after: Glow

    @classmethod
    def prepare(cls, config: Config, store: TokenStore, backbone: Backbone, cache: Path | None) -> TokenStore:
        """Returns the store as it is. ConfigError for fewer texts than dimensions, whose density has no maximum."""
        texts = store.rows * len(store.columns)
        if texts < backbone.width:
            line = f"too few sentences: train.corpus has {texts}, the encoder has {backbone.width} dimensions"
            raise ConfigError([f"{line}; give more text"])
        return store

    @classmethod
    def make_collate(cls, config: Config, tokenizer, max_seq_length: int) -> Callable[[Share], Batch]:
        """Returns the collate function, which packs all texts of the rows, column by column."""
        pad_id = tokenizer.pad_token_id or 0
        return lambda share: Batch({"text": pack_lists(share.texts, pad_id=pad_id)}, len(share.rows))

    def __init__(self, config: Config, backbone: Backbone, training: bool = True) -> None:
        """Builds the modules; ConfigError for a width that cannot be halved `levels` times."""
        after = Glow(backbone.width, config.levels, config.depth, config.width)
        super().__init__(backbone.encoder, config.pooler, after, config.encoder_dropout)
        self.config = config

    def forward(self, batch: Batch) -> StepOutput:
        x_ND = self.embed(batch.inputs["text"])
        with torch.autocast(x_ND.device.type, enabled=False):
            if not self.after.initialised:
                first_ND = x_ND if self.config.first_batch == "all" else x_ND[: batch.examples]
                self.after.initialise(all_gather_rows(first_ND))
            loss = bits_per_dimension(self.after(x_ND), self.after.log_det)
            if self.config.loss == "sum":
                loss = loss * (len(x_ND) // batch.examples)
        return StepOutput(loss, {"loss": loss.detach()})

    def encode(self, packed: Packed) -> Tensor:
        """Embeds packed texts at test time: [N, D] in batch order, after the flow."""
        z_ND: Tensor = self.after(self.embed(packed))
        return z_ND
