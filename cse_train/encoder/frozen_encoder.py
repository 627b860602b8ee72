"""A frozen encoder, for methods that work on its sentence embeddings, and the whitening of these.

Shape suffixes: N sentences, D embedding size, K dimensions kept.
"""

from typing import Any

import torch
from torch import Tensor, nn

from cse_train.encoder.packing import Packed
from cse_train.encoder.pooling import SentencePooler
from cse_train.fields import ConfigError


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


SMALLEST_VARIANCE = 1e-10
"""Smallest variance that is kept, as a share of the largest; dividing by rounding below it would give noise."""


class Whitener(nn.Module):
    """Whitening x -> (x - mu) W, W = U diag(1 / sqrt(lambda)) for the covariance U diag(lambda) U^T (eq. 3 to 6).

    `dimensions` keeps the directions of the largest variances (section 3.3); without `scale`, only the mean is taken
    off. Count, sum and products of the rows are fp64 buffers: rows may come in any order and any number of calls.
    """

    count: Tensor
    sum_D: Tensor
    products_DD: Tensor

    def __init__(self, width: int, dimensions: int | None = None, scale: bool = True) -> None:
        super().__init__()
        if dimensions is not None and dimensions > width:
            line = f"too many dimensions: method.dimensions={dimensions}, the encoder has {width}"
            raise ConfigError([f"{line}; give {width} at most, or null"])
        self.dimensions = dimensions or width
        self.scale = scale
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("sum_D", torch.zeros(width, dtype=torch.float64))
        self.register_buffer("products_DD", torch.zeros(width, width, dtype=torch.float64))
        self.fitted: tuple[int, Tensor, Tensor] | None = None

    @torch.no_grad()
    def add(self, rows_ND: Tensor) -> None:
        """Adds rows to the count, the sum and the products from which the map is computed."""
        rows_ND = rows_ND.double()
        self.count += len(rows_ND)
        self.sum_D += rows_ND.sum(0)
        self.products_DD += rows_ND.T @ rows_ND

    @property
    def mean_D(self) -> Tensor:
        """Mean mu of the rows added so far, fp64; 0 before the first row."""
        return self.sum_D / self.count.clamp(min=1)

    def transform(self) -> tuple[Tensor, Tensor]:
        """Returns mu [D] and W [D, K] in fp64, largest variance first.

        Raises ConfigError where the rows vary in fewer than K directions.
        """
        count, mean_D = int(self.count), self.mean_D
        width = len(mean_D)
        if not self.scale:
            return mean_D, torch.eye(width, dtype=torch.float64, device=mean_D.device)
        covariance_DD = (self.products_DD - count * torch.outer(mean_D, mean_D)) / max(1, count - 1)
        variance_D, axes_DD = (values.flip(-1) for values in torch.linalg.eigh(covariance_DD))
        varying = int((variance_D > variance_D[0] * SMALLEST_VARIANCE).sum())
        kept = self.dimensions
        if varying < kept:
            rule = "too few sentences" if count <= kept else "singular covariance"
            line = f"{rule}: {count} sentences so far, which vary in {varying} of {width} directions; {kept} are wanted"
            more = "give more text (train.corpus, train.examples; fewer train.evaluations)"
            raise ConfigError([f"{line}; {more}, or method.dimensions={varying} at most"])
        return mean_D, axes_DD[:, :kept] / variance_D[:kept].sqrt()

    def forward(self, rows_ND: Tensor) -> Tensor:
        """Whitens rows to fp32 [N, K]; before the first row was added, returns them as they are."""
        count = int(self.count)
        if count == 0:
            return rows_ND
        # The map is computed anew only when rows were added, or on another device.
        if self.fitted is None or (self.fitted[0], self.fitted[1].device) != (count, rows_ND.device):
            self.fitted = (count, *self.transform())
        _, mean_D, map_DK = self.fitted
        return ((rows_ND.double() - mean_D) @ map_DK).float()
