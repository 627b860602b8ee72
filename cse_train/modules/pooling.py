"""Pooling of hidden states to one vector per sentence, and the papers' projection on top.

Shape suffixes: V views, N sequences, H hidden size.
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from cse_train.encoder.encoder import Hidden
from cse_train.encoder.packing import Packed
from cse_train.modules.projector import BatchNormProjector, MlpProjector

POOLERS = ("cls", "cls_train_only", "cls_no_mlp", "mean", "last", "first_last", "first_last_layer1")
"""Names of the poolers. cls: [CLS] with MLP; cls_train_only: the MLP in training only; cls_no_mlp: bare [CLS]; mean:
attended positions of the last layer; last: the last attended position of that layer, which a causal encoder has read
the whole text for; first_last: mean of embedding output and last layer (the papers' 56.70); first_last_layer1: mean of
layer 1 and last layer (SimCSE's code at HEAD, 60.73)."""


def needs_tokens(pooler: str) -> bool:
    """Returns whether a pooler reads more than the last layer's [CLS]."""
    assert pooler in POOLERS, pooler
    return not pooler.startswith("cls")


def has_projector(pooler: str, training: bool) -> bool:
    """Returns whether a projector follows the pooling, in training or at test time."""
    assert pooler in POOLERS, pooler
    return pooler == "cls" or (pooler == "cls_train_only" and training)


def pool(hidden: Hidden, pooler: str) -> Tensor:
    """Returns sentence vectors [V, N, H] in batch order, before any MLP."""
    if not needs_tokens(pooler):
        return hidden.cls_VNH
    assert hidden.last_TH is not None and hidden.embedding_TH is not None and hidden.layer1_TH is not None
    if pooler == "mean":
        return hidden.mean_VNH(hidden.last_TH)
    if pooler == "last":
        return hidden.last_VNH()
    first_TH = hidden.embedding_TH if pooler == "first_last" else hidden.layer1_TH
    return hidden.mean_VNH((first_TH + hidden.last_TH) / 2)


def make_pooled(encoder: nn.Module, pooler: str) -> Callable[[Packed], Tensor]:
    """Returns a function that encodes a pack as [N, H] by an encoder and a pooler without MLP."""
    return lambda packed: pool(encoder(packed, tokens=needs_tokens(pooler)), pooler)[0]


class SentencePooler(nn.Module):
    """Pools hidden states to [V, N, H] and applies the projector where the pooler has one in the current mode."""

    def __init__(self, pooler: str, width: int, projector: Literal["mlp", "batchnorm"] = "mlp") -> None:
        super().__init__()
        self.pooler = pooler
        self.projector: nn.Module | None = None
        if has_projector(pooler, training=True):
            self.projector = BatchNormProjector(width) if projector == "batchnorm" else MlpProjector(width)

    @property
    def needs_tokens(self) -> bool:
        """Value to pass to the encoder as `tokens`: whether the pooler reads more than [CLS]."""
        return needs_tokens(self.pooler)

    def forward(self, *hidden: Hidden) -> Tensor:
        """Pools passes over the same N sequences, joined as views so that BatchNorm's statistics are joint too."""
        pooled_VNH = torch.cat([pool(passed, self.pooler) for passed in hidden])
        if self.projector is None or not has_projector(self.pooler, self.training):
            return pooled_VNH
        projected: Tensor = self.projector(pooled_VNH)
        return projected
