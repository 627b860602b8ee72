"""A frozen encoder, for methods that work on its sentence embeddings.

Shape suffixes: N sequences, D embedding size.
"""

from typing import Any

import torch
from torch import Tensor, nn

from cse_train.encoder.packing import Packed
from cse_train.modules.pooling import SentencePooler


class FrozenEncoder(nn.Module):
    """Encoder and pooler without gradient, then the module `after`. `dropout` False: no dropout even in training."""

    def __init__(self, encoder: Any, pooler: str, after: nn.Module, dropout: bool = False) -> None:
        super().__init__()
        self.encoder = encoder.requires_grad_(False)
        self.pooler = SentencePooler(pooler, encoder.width)
        self.after, self.dropout = after, dropout

    def train(self, mode: bool = True) -> "FrozenEncoder":
        """Sets training mode as `nn.Module.train`, but leaves the encoder in eval mode where `dropout` is False."""
        super().train(mode)
        self.encoder.train(mode and self.dropout)
        return self

    @torch.no_grad()
    def embed(self, packed: Packed) -> Tensor:
        """Returns fp32 [N, D]: pooled embeddings of the frozen encoder, before `after`."""
        pooled: Tensor = self.pooler(self.encoder(packed, tokens=self.pooler.needs_tokens))[0]
        return pooled.float()
