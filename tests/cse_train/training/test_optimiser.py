"""Clipping equals torch's, where it clips, where it does not and where a gradient is no number."""

import pytest
import torch
from torch import nn

from cse_train.training.optimiser import clip_gradients


def with_gradients(scale: float) -> list[nn.Parameter]:
    """Three parameters, the last without a gradient."""
    generator = torch.Generator().manual_seed(0)
    parameters = [nn.Parameter(torch.zeros(size)) for size in (5, 7, 2)]
    for parameter in parameters[:2]:
        parameter.grad = scale * torch.randn(parameter.shape, generator=generator)
    return parameters


@pytest.mark.parametrize("scale", [1e-3, 0.3, 1.0, 100.0, float("inf"), float("nan")])
def test_clipping_equals_torch(scale: float) -> None:
    ours, theirs = with_gradients(scale), with_gradients(scale)
    clip_gradients(iter(ours), 1.0)
    nn.utils.clip_grad_norm_(theirs, 1.0)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.grad, other.grad, rtol=0, atol=0, equal_nan=True)


def test_nothing_to_clip_is_no_error() -> None:
    clip_gradients([nn.Parameter(torch.zeros(2))], 1.0)
