"""Dropout and linear layers, computed on a CPU in a part of torch's time.

**Dropout**: 16 random bits decide about a number, not a 64-bit double, so that masks cost a third. The rate is rounded
to the nearest multiple of 2^-16 (0.1 becomes 0.100006), and the numbers that stay are divided by the rounded share, so
that the expectation is exact. Numbers are dropped independently, from torch's global generator.

**Linear**: the bias is added by the matrix product itself, in fp32 or with the product alone in bf16. torch's linear
copies the bias into the whole result and lets the product add to it, which is a tenth to a quarter of the product's
time on a CPU; oneDNN's own adds it to what it has in its registers, and the numbers are the same. With bf16 products
rows, weights and gradients are rounded where they are multiplied. Where oneDNN rounds fp32 tensors itself, the result
is fp32; where tensors are rounded first, it is bf16, and stays so until fp32 is wanted.

Shape suffixes: T rows, I inputs, O outputs.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cse_train import numerics
from cse_train.encoder.card import Affine
from cse_train.numerics import CAST, ROUNDED, TORCH, onednn_mode, product_path

LEVELS = 1 << 16
"""Number of values that 16 bits can have."""


def dropout(x: Tensor, rate: float, training: bool) -> Tensor:
    """Returns `F.dropout(x, rate, training)`, on a CPU with the cheaper masks of `draw_scaled_mask`."""
    if not training or rate == 0:
        return x
    if numerics.is_card(x.device):
        return F.dropout(x, rate)
    return x * draw_scaled_mask(x, rate)


def dropout_and_add(x: Tensor, residual: Tensor, rate: float, training: bool) -> Tensor:
    """Returns `residual + dropout(x)`, on a CPU in one pass."""
    if not training or rate == 0 or numerics.is_card(x.device):
        return residual + dropout(x, rate, training)
    return torch.addcmul(residual, x, draw_scaled_mask(x, rate))


def draw_scaled_mask(like: Tensor, rate: float) -> Tensor:
    """Draws a mask in the shape and dtype of `like`: 0 where a number is dropped, 1 / (1 - rate) elsewhere.

    Raises ValueError unless 0 <= rate < 1.
    """
    if not 0 <= rate < 1:
        raise ValueError(f"dropout: rate={rate} must be at least 0 and below 1")
    dropped = min(round(rate * LEVELS), LEVELS - 1)
    if dropped == 0:
        return torch.ones_like(like)
    largest = dropped - LEVELS // 2 - 1  # of what is dropped; cutting at it takes a seventh of a comparison's time
    mask = random_16(like.numel()).clamp_(largest, largest + 1).sub_(largest)
    return mask.to(like.dtype).mul_(LEVELS / (LEVELS - dropped)).view(like.shape)


def random_16(count: int) -> Tensor:
    """Draws uniform int16 [count], four out of each 64-bit number of torch's global CPU generator."""
    numbers = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
    return numbers.view(torch.int16)[:count]


def linear(x_TI: Tensor, layer: nn.Linear | Affine) -> Tensor:
    """Returns `layer(x_TI)`; in bf16 on the path CAST, whatever dtype the rows have."""
    path = product_path(x_TI)
    if path == TORCH:
        return F.linear(x_TI, layer.weight, layer.bias)
    result: Tensor = OneDnnLinear.apply(x_TI, layer.weight, layer.bias, path)
    return result


def linear_gelu(x_TI: Tensor, layer: nn.Linear | Affine) -> Tensor:
    """Returns `F.gelu(layer(x_TI))`, in one pass if no gradient needs the value in between."""
    path = product_path(x_TI)
    if torch.is_grad_enabled() or path == TORCH:
        return F.gelu(linear(x_TI, layer))
    weight_OI: Tensor = layer.weight
    bias_O: Tensor = layer.bias
    if path == CAST:
        x_TI, weight_OI, bias_O = x_TI.bfloat16(), weight_OI.bfloat16(), bias_O.bfloat16()
    with _mode(path):
        return _product(x_TI, weight_OI, bias_O, "gelu", "none")


class OneDnnLinear(torch.autograd.Function):
    """Autograd function of `linear`; keeps only the tensors that a wanted gradient needs, as they were multiplied."""

    @staticmethod
    def forward(ctx: Any, x_TI: Tensor, weight_OI: Tensor, bias_O: Tensor, path: str) -> Tensor:
        by_x, by_weight, *_ = ctx.needs_input_grad
        ctx.path, ctx.rows = path, x_TI.dtype
        if path == CAST:
            x_TI, weight_OI, bias_O = x_TI.bfloat16(), weight_OI.bfloat16(), bias_O.bfloat16()
        with _mode(path):
            result = _product(x_TI, weight_OI, bias_O, "none", "")
        ctx.save_for_backward(x_TI if by_weight else None, weight_OI if by_x else None)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad_TO,), (x_TI, weight_OI) = grads, ctx.saved_tensors
        by_bias = grad_TO.sum(0).float() if ctx.needs_input_grad[2] else None
        with _mode(ctx.path):
            by_x = None if weight_OI is None else (grad_TO @ weight_OI).to(ctx.rows)
            by_weight = None if x_TI is None else (grad_TO.mT @ x_TI).float()
        return by_x, by_weight, by_bias, None


def _mode(path: str) -> AbstractContextManager[None]:
    """Returns the context that sets oneDNN's mode for a path; fp32's mode is on already."""
    return onednn_mode("bf16") if path == ROUNDED else nullcontext()


def _product(x_TI: Tensor, weight_OI: Tensor, bias_O: Tensor, operation: str, algorithm: str) -> Tensor:
    """Runs oneDNN's linear, followed by one of torch's pointwise operations, such as gelu or none."""
    result: Tensor = torch.ops.mkldnn._linear_pointwise(x_TI, weight_OI, bias_O, operation, [], algorithm)
    return result
