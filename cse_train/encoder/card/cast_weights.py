"""Casts all of a layer's weights to autocast's dtype by one copy, and their gradients back by another.

Autocast casts each weight and each bias by a kernel of its own, there and back, which on a GPU takes longer to hand
over than to compute.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class Affine(NamedTuple):
    """Weight and bias of a linear layer."""

    weight: Tensor
    bias: Tensor


def cast_together(layers: Sequence[nn.Linear], dtype: torch.dtype) -> list[Affine]:
    """Returns the layers' weights and biases in `dtype`; their gradients reach the layers."""
    cast = CastTogether.apply(dtype, *(tensor for layer in layers for tensor in (layer.weight, layer.bias)))
    return [Affine(*two) for two in zip(cast[::2], cast[1::2], strict=True)]


class CastTogether(torch.autograd.Function):
    """Autograd function of `cast_together`; a frozen weight has no gradient, and its copy asks for none."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *weights: Tensor) -> tuple[Tensor, ...]:
        made = tuple(torch.empty_like(weight, dtype=dtype) for weight in weights)
        torch._foreach_copy_(made, weights)
        wanted = ctx.needs_input_grad[1:]
        ctx.mark_non_differentiable(*(copy for copy, want in zip(made, wanted, strict=True) if not want))
        ctx.set_materialize_grads(False)
        ctx.dtype = weights[0].dtype
        return made

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        given = [grad for grad in grads if grad is not None]
        if not given:
            return None, *grads
        made = [torch.empty_like(grad, dtype=ctx.dtype) for grad in given]
        torch._foreach_copy_(made, given)
        left = iter(made)
        return None, *(None if grad is None else next(left) for grad in grads)
