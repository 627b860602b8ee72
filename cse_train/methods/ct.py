"""Contrastive Tension (Carlsson et al., ICLR 2021): two encoders learn whether both of them read the same sentence.

Shape suffixes: B pairs of this rank, A distinct sentences that the first encoder reads for them, G pairs of all ranks,
H width.
"""

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cse_train import numerics
from cse_train.distributed import gather_with_grad
from cse_train.encoder.backbone import Backbone
from cse_train.encoder.packing import Packed, pack
from cse_train.encoder.pooling import SentencePooler
from cse_train.fields import ConfigError
from cse_train.losses import contrastive_tension, cosines, view_statistics
from cse_train.methods.base import Batch, Encode, Method, Share, StepOutput
from cse_train.methods.options.ct import Config as Config
from cse_train.text.tokens import TokenColumn

FIRST, SECOND = "first_encoder.", "encoder."
"""Prefixes of the state of the first and of the second encoder."""


@dataclass(frozen=True)
class Collate:
    """Collates corpus rows to pairs: the second encoder reads every row, the first one the row's partner.

    Each K + 1 rows of the global batch make one positive pair, of its first row with itself, and K negative ones.
    """

    config: Config
    pad_id: int

    def __call__(self, share: Share) -> Batch:
        together = self.config.negatives + 1
        if len(share.batch_rows) % together:
            size = f"train.batch_size={len(share.batch_rows)}, method.negatives={self.config.negatives}"
            raise ConfigError([f"pairs do not divide: {size}; give a batch that is a multiple of {together}"])
        at_B = np.flatnonzero(np.isin(share.batch_rows, share.rows))
        anchors_B = share.batch_rows[at_B - at_B % together]
        same_B = anchors_B == share.rows
        if self.config.pairing == "independent":
            others = share.store.rows - 1
            drawn = [int(row + 1 + share.rng_of(int(row)).integers(others)) % share.store.rows for row in share.rows]
            anchors_B = np.where(same_B, anchors_B, drawn)
        anchors_A, anchor_B = np.unique(anchors_B, return_inverse=True)
        column = share.store.column("text")
        packs = {"first": self._pack(column, anchors_A), "second": self._pack(column, share.rows)}
        tensors = {"anchor_B": torch.from_numpy(anchor_B), "same_B": torch.from_numpy(same_B)}
        return Batch(packs, len(share.rows), tensors)

    def _pack(self, column: TokenColumn, rows: np.ndarray) -> Packed:
        return pack(column.flat, column.starts[rows], column.lengths[rows], pad_id=self.pad_id)


class ContrastiveTension(Method[Config]):
    """Contrastive Tension: two encoders that start equal, share no weight, and are trained by one loss."""

    TRAINING_ONLY = (FIRST,)

    @classmethod
    def corpus_alone(cls, config: Config) -> bool:
        return True

    @classmethod
    def make_collate(cls, config: Config, tokenizer: Any, max_seq_length: int) -> Collate:
        return Collate(config, tokenizer.pad_token_id)

    def __init__(self, config: Config, backbone: Backbone, training: bool = True) -> None:
        super().__init__()
        self.encoder = backbone.encoder
        self.pooler = SentencePooler(config.pooler, backbone.encoder.width)
        self.both_scored, self.first_is_better = config.kept == "better", False
        self.first_encoder = copy.deepcopy(backbone.encoder) if training else None

    def forward(self, batch: Batch) -> StepOutput:
        first_AH = self._first(batch.inputs["first"])
        first_BH, second_BH = first_AH[batch.tensors["anchor_B"]], self.encode(batch.inputs["second"])
        loss = contrastive_tension(first_BH, second_BH, batch.tensors["same_B"])
        joined = (gather_with_grad(rows.detach()) for rows in (first_BH, second_BH, batch.tensors["same_B"]))
        return StepOutput(loss, {"loss": loss.detach(), **_pair_statistics(*joined)})

    def _first(self, packed: Packed) -> Tensor:
        assert self.first_encoder is not None
        return self.pooler(self.first_encoder(packed, tokens=self.pooler.needs_tokens))[0]

    def dev_encodes(self) -> list[Encode]:
        """Returns the functions that embed by the second encoder and, where either may be kept, by the first."""
        return [self.encode, self._first] if self.both_scored else [self.encode]

    def keep(self, place: int) -> None:
        """Stores which of `dev_encodes` was the best."""
        self.first_is_better = place == 1

    def kept_state(self) -> dict[str, Any]:
        """Returns the state; where the first encoder was the better one, its weights replace the second's."""
        state = self.state_dict()
        if not self.first_is_better:
            return state
        others = {name: value for name, value in state.items() if not name.startswith((FIRST, SECOND))}
        return others | {SECOND + name.removeprefix(FIRST): state[name] for name in state if name.startswith(FIRST)}


@torch.no_grad()
def _pair_statistics(first_GH: Tensor, second_GH: Tensor, same_G: Tensor) -> dict[str, Tensor]:
    """Returns the metrics of `view_statistics` for pairs, where a row's own two vectors meet in positive pairs only."""
    cosine_G = cosines(first_GH, second_GH).diagonal().float()
    positive, negative = (_mean_where(cosine_G, chosen_G) for chosen_G in (same_G, ~same_G))
    spread = view_statistics(second_GH, second_GH)
    return {**spread, "positive_cosine": positive, "negative_cosine": negative, "alignment": 2 - 2 * positive}


def _mean_where(values_G: Tensor, chosen_G: Tensor) -> Tensor:
    """Returns the mean of the chosen values; on a card without a count, for which the host would have to wait."""
    if numerics.is_card(values_G.device):
        return torch.where(chosen_G, values_G, 0.0).sum() / chosen_G.sum()
    return values_G[chosen_G].mean()
