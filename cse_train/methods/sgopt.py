"""SG-OPT (Kim, Yoo and Lee, ACL 2021): an encoder's [CLS] learns from the layers of a copy that stays as it was.

Shape suffixes: N sequences, B examples of this rank, G of all ranks, K guides of an example, T packed slots, H width, P
width of the projection.
"""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from cse_train.distributed import gather_with_grad
from cse_train.encoder.backbone import Backbone
from cse_train.encoder.encoder import Encoder, Hidden
from cse_train.encoder.packing import pack
from cse_train.encoder.pooling import SentencePooler
from cse_train.losses import self_guided, view_statistics
from cse_train.methods.base import Batch, Method, Share, StepOutput
from cse_train.methods.options.sgopt import Config as Config

DEVIATION = 0.02
"""Standard deviation of the projection head's new weights: BERT's `initializer_range`, as released."""


@dataclass(frozen=True)
class Collate:
    """Collates corpus rows to one pack, and for each text a number in [0, 1) that picks the layer of its guide."""

    pad_id: int

    def __call__(self, share: Share) -> Batch:
        column, rows = share.store.column("text"), share.rows
        packed = pack(column.flat, column.starts[rows], column.lengths[rows], pad_id=self.pad_id)
        place_B = torch.tensor([share.rng_of(int(row)).random() for row in rows])
        return Batch({"text": packed}, len(rows), {"place_B": place_B})


class SGOpt(Method[Config]):
    """SG-OPT: the trained encoder, the fixed one and the projection head f (section 3.1)."""

    TRAINING_ONLY = ("fixed.", "projection.")

    @classmethod
    def corpus_alone(cls, config: Config) -> bool:
        return True

    @classmethod
    def make_collate(cls, config: Config, tokenizer: Any, max_seq_length: int) -> Collate:
        return Collate(tokenizer.pad_token_id)

    def __init__(self, config: Config, backbone: Backbone, training: bool = True) -> None:
        super().__init__()
        self.config = config
        self.encoder = backbone.encoder
        self.pooler = SentencePooler("cls_no_mlp", backbone.encoder.width)
        self.fixed: nn.Module | None = None
        self.projection: nn.Module | None = None
        if training:
            self.fixed = copy.deepcopy(self.encoder).requires_grad_(False)
            self.projection = _projection(self.encoder.width, config.projection_width)
            if not config.train_embeddings:
                inner = self.encoder if isinstance(self.encoder, Encoder) else self.encoder.model
                own_names = ("word", "position", "token_type", "embedding_norm")
                for name in own_names if inner is self.encoder else ("embeddings",):
                    getattr(inner, name).requires_grad_(False)

    def forward(self, batch: Batch) -> StepOutput:
        assert self.projection is not None
        sentences_BH = self.encode(batch.inputs["text"])
        guides_BKH = self._guides(batch)
        projected = self.projection(sentences_BH), self.projection(guides_BKH)
        sentences_GP, guides_GKP = map(gather_with_grad, projected)
        settings = self.config.temperature, self.config.objective, self.config.opt2_negatives == "all"
        guided = self_guided(sentences_GP, guides_GKP, *settings)
        distance = self.distance()
        loss = guided + self.config.lambda_weight * distance
        parts = {"loss": loss, "loss_contrastive": guided, "squared_distance": distance}
        metrics = {name: part.detach() for name, part in parts.items()}
        return StepOutput(loss, {**metrics, **view_statistics(sentences_GP, guides_GKP.mean(1))})

    @torch.no_grad()
    def _guides(self, batch: Batch) -> Tensor:
        """Returns [B, K, H]: every state of the fixed encoder, pooled, or for each text one that is drawn uniformly."""
        assert self.fixed is not None
        fixed = self.fixed.train(self.training and self.config.guide_dropout)
        hidden = fixed(batch.inputs["text"], layers=True)
        guides_BKH = torch.stack([_pool(hidden, state_TH, self.config.guide) for state_TH in hidden.states_TH], dim=1)
        if self.config.objective == "opt3":
            return guides_BKH
        drawn_B = (batch.tensors["place_B"] * guides_BKH.shape[1]).long()
        return guides_BKH[torch.arange(len(drawn_B), device=drawn_B.device), drawn_B].unsqueeze(1)

    def distance(self) -> Tensor:
        """Returns the squared L2 distance of the trained encoder's parameters from the fixed one's (L_reg of 3.1)."""
        assert self.fixed is not None
        pairs = zip(self.encoder.parameters(), self.fixed.parameters(), strict=True)
        return torch.stack([(mine - start).square().sum() for mine, start in pairs if mine.requires_grad]).sum()


def _pool(hidden: Hidden, state_TH: Tensor, guide: str) -> Tensor:
    """Returns [N, H]: the maximum or the mean over each sequence's attended positions."""
    if guide == "mean":
        return hidden.mean_VNH(state_TH)[0]
    real_TH = state_TH.masked_fill(~hidden.packed.attended_T()[:, None], float("-inf"))
    return hidden.packed.unsort([block.amax(1) for _, block in hidden.packed.split(real_TH)], 1)[0]


def _projection(width: int, inner: int) -> nn.Module:
    """Returns the projection head: two layers, each with a GELU (released loss.py)."""
    head = nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, inner), nn.GELU())
    for layer in (head[0], head[2]):
        assert isinstance(layer, nn.Linear)
        nn.init.normal_(layer.weight, 0.0, DEVIATION)
        nn.init.zeros_(layer.bias)
    return head
