"""A linear layer whose bias is added by the matrix product itself.

torch's linear copies the bias into the whole result and lets the product add to it, which is a tenth to a quarter of
the product's time on a CPU. oneDNN's own linear adds it to what it has in its registers; the numbers are the same.
Shape suffixes: T rows, I inputs, O outputs.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cse_train.numerics import onednn_multiplies


def linear(x_TI: Tensor, layer: nn.Linear) -> Tensor:
    """`layer(x_TI)`."""
    if not _by_onednn(x_TI):
        return F.linear(x_TI, layer.weight, layer.bias)
    result: Tensor = OneDnnLinear.apply(x_TI, layer.weight, layer.bias)
    return result


def linear_gelu(x_TI: Tensor, layer: nn.Linear) -> Tensor:
    """`F.gelu(layer(x_TI))`, in one pass where no gradient wants what lies between."""
    if torch.is_grad_enabled() or not _by_onednn(x_TI):
        return F.gelu(linear(x_TI, layer))
    return _product(x_TI, layer.weight, layer.bias, "gelu", "none")


class OneDnnLinear(torch.autograd.Function):
    """What `linear` applies. Only what a wanted gradient needs is kept."""

    @staticmethod
    def forward(ctx: Any, x_TI: Tensor, weight_OI: Tensor, bias_O: Tensor) -> Tensor:
        by_x, by_weight, _ = ctx.needs_input_grad
        ctx.save_for_backward(x_TI if by_weight else None, weight_OI if by_x else None)
        return _product(x_TI, weight_OI, bias_O, "none", "")

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        (grad_TO,), (x_TI, weight_OI) = grads, ctx.saved_tensors
        by_x = None if weight_OI is None else grad_TO @ weight_OI
        by_weight = None if x_TI is None else grad_TO.mT @ x_TI
        return by_x, by_weight, grad_TO.sum(0) if ctx.needs_input_grad[2] else None


def _by_onednn(x: Tensor) -> bool:
    ours = x.device.type == "cpu" and x.dtype == torch.float32 and x.ndim == 2
    return ours and onednn_multiplies() and not torch.is_autocast_enabled("cpu")


def _product(x_TI: Tensor, weight_OI: Tensor, bias_O: Tensor, then: str, kind: str) -> Tensor:
    """oneDNN's linear with what torch calls a pointwise operation behind it."""
    result: Tensor = torch.ops.mkldnn._linear_pointwise(x_TI, weight_OI, bias_O, then, [], kind)
    return result
