"""Pooling of hidden states to one vector per sentence, and the papers' projection on top.

Shape suffixes: V views, N sequences, H hidden size, C channels of a normalisation.
"""

from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cse_train.distributed import all_reduce_sum_with_grad, size
from cse_train.encoder.encoder import Hidden
from cse_train.encoder.packing import Packed

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


class MlpProjector(nn.Module):
    """SimCSE's projector tanh(Linear(H, H)), weight N(0, 0.02), bias 0; new even where BERT has one (models.py:19)."""

    def __init__(self, width: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)
        nn.init.normal_(self.dense.weight, 0.0, 0.02, generator=generator)
        nn.init.zeros_(self.dense.bias)

    def forward(self, pooled: Tensor) -> Tensor:
        return torch.tanh(self.dense(pooled))


class JointBatchNorm(nn.Module):
    """BatchNorm over all leading dimensions and all ranks, whose gradient passes through the statistics.

    torch's SyncBatchNorm refuses CPU tensors. Momentum 0.1, eps 1e-5, running variance unbiased, all in fp32; every
    rank must hold the same number of rows. The running statistics come from joint sums, so they agree on all ranks.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, width: int, *, affine: bool, momentum: float = 0.1, eps: float = 1e-5) -> None:
        super().__init__()
        self.momentum = momentum
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width)) if affine else None
        self.bias = nn.Parameter(torch.zeros(width)) if affine else None
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("running_var", torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Normalises [..., C], in eval mode by the running statistics. ValueError for fewer than 2 rows in training."""
        mean, var = self._joint_statistics(x.float()) if self.training else (self.running_mean, self.running_var)
        normal = (x.float() - mean) * torch.rsqrt(var + self.eps)
        if self.weight is not None and self.bias is not None:
            normal = normal * self.weight + self.bias
        return normal.to(x.dtype)

    def _joint_statistics(self, x: Tensor) -> tuple[Tensor, Tensor]:
        rows = x.flatten(0, -2)
        count = len(rows) * size()
        if count < 2:
            raise ValueError(f"batch norm: rows={count}; training needs at least 2 rows over all views and ranks")
        # Two reductions: the mean of squares minus the squared mean would cancel in fp32.
        mean = all_reduce_sum_with_grad(rows.sum(0)) / count
        var = all_reduce_sum_with_grad((rows - mean).square().sum(0)) / count
        with torch.no_grad():
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var * (count / (count - 1)), self.momentum)
        return mean, var


class BatchNormProjector(nn.Module):
    """DiffCSE's projector: Linear(H, 2H), BN, ReLU, Linear(2H, H), BN without affine; linears N(0, 0.02) without bias.

    Source: DiffCSE models.py, ProjectionMLP. The statistics join the views: the input of a step is one [V, N, H]
    tensor, never one view after the other.
    """

    def __init__(self, width: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.inner = nn.Linear(width, 2 * width, bias=False)
        self.inner_norm = JointBatchNorm(2 * width, affine=True)
        self.outer = nn.Linear(2 * width, width, bias=False)
        self.outer_norm = JointBatchNorm(width, affine=False)
        for linear in (self.inner, self.outer):
            nn.init.normal_(linear.weight, 0.0, 0.02, generator=generator)

    def forward(self, pooled_VNH: Tensor) -> Tensor:
        return self.outer_norm(self.outer(F.relu(self.inner_norm(self.inner(pooled_VNH)))))
