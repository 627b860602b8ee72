"""Vectors for the oracles of the losses."""

import torch


def draws(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    """Standard normal ones, the same at each call."""
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(shape, generator=generator) for shape in shapes]
