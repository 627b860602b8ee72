"""Linear layer whose bias is added by the matrix product itself, in fp32 or with the product alone in bf16.

torch's linear copies the bias into the whole result and lets the product add to it, which is a tenth to a quarter of
the product's time on a CPU. oneDNN's own linear adds it to what it has in its registers; the numbers are the same. With
bf16 products rows, weights and gradients are rounded where they are multiplied. Where oneDNN rounds fp32 tensors
itself, the result is fp32; where tensors are rounded first, it is bf16, and stays so until fp32 is wanted. Shape
suffixes: T rows, I inputs, O outputs.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cse_train.encoder.card.cast_weights import Affine
from cse_train.numerics import CAST, ROUNDED, TORCH, onednn_mode, product_path


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
