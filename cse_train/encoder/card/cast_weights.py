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
    return [Affine(*pair) for pair in zip(cast[::2], cast[1::2], strict=True)]


class CastTogether(torch.autograd.Function):
    """Autograd function of `cast_together`; a frozen weight has no gradient, and its copy asks for none."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *weights: Tensor) -> tuple[Tensor, ...]:
        copies = tuple(torch.empty_like(weight, dtype=dtype) for weight in weights)
        torch._foreach_copy_(copies, weights)
        needed = ctx.needs_input_grad[1:]
        ctx.mark_non_differentiable(*(copy for copy, is_needed in zip(copies, needed, strict=True) if not is_needed))
        ctx.set_materialize_grads(False)
        ctx.dtype = weights[0].dtype
        return copies

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        present = [grad for grad in grads if grad is not None]
        if not present:
            return None, *grads
        copies = [torch.empty_like(grad, dtype=ctx.dtype) for grad in present]
        torch._foreach_copy_(copies, present)
        remaining = iter(copies)
        return None, *(None if grad is None else next(remaining) for grad in grads)
