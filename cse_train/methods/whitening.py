"""Whitening of sentence embeddings (Su et al. 2021): fitted, not trained.

Each step adds the statistics of its texts, and `encode` applies the map that follows from all of them, so that the
loop's evaluations, checkpoints and exact resume work unchanged. Nothing has a gradient.

Shape suffixes: N sequences, K dimensions kept.
"""

from collections.abc import Callable

from torch import Tensor

from cse_train.distributed import all_gather_rows
from cse_train.encoder.backbone import Backbone
from cse_train.encoder.frozen_encoder import FrozenEncoder, Whitener
from cse_train.encoder.packing import Packed, pack_lists
from cse_train.methods.base import Batch, Method, Share, StepOutput
from cse_train.methods.options.whitening import Config as Config


class Whitening(FrozenEncoder, Method[Config]):
    """Whitening: a frozen encoder and the linear map fitted to its embeddings."""

    after: Whitener

    @classmethod
    def make_collate(cls, config: Config, tokenizer, max_seq_length: int) -> Callable[[Share], Batch]:
        """Returns the collate function, which packs all texts of the rows."""
        pad_id = tokenizer.pad_token_id or 0
        return lambda share: Batch({"text": pack_lists(share.texts, pad_id=pad_id)}, len(share.rows))

    def __init__(self, config: Config, backbone: Backbone, training: bool = True) -> None:
        """Builds the modules; ConfigError for more dimensions than the encoder has."""
        after = Whitener(backbone.width, config.dimensions, config.scale)
        super().__init__(backbone.encoder, config.pooler, after)

    def forward(self, batch: Batch) -> StepOutput:
        """Adds all ranks' texts to the statistics; `loss` is their mean square distance per dimension from the mean."""
        rows_ND = all_gather_rows(self.embed(batch.inputs["text"]))
        self.after.add(rows_ND)
        loss = (rows_ND.double() - self.after.mean_D).square().mean().float()
        return StepOutput(loss, {"loss": loss})

    def encode(self, packed: Packed) -> Tensor:
        """Embeds packed texts, whitened, [N, K]. ConfigError where the texts so far vary in fewer directions than K."""
        whitened: Tensor = self.after(self.embed(packed))
        return whitened
