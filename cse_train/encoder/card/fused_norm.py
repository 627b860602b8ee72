"""LayerNorm(x + dropout(product + bias)) on a GPU, in bf16 or fp16: one kernel forward and one backward.

torch takes four kernels forward and nine back, most of which read and write fp32 rows: of a base encoder's step they
were a quarter. The numbers are those of autocast: sum and result in fp32, and with the result its copy for the next
product. Shape suffixes: T rows, H their width, P programs.
"""

import functools
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cse_train.encoder.card.compilers import DTYPES, draw_seed, is_proved, load_kernel

WIDTH_LIMIT = 4096
"""Largest number of numbers in a row: one program holds all of them."""
NUMBERS_PER_WARP = {"norm": 512, "norm_back": 1024}
"""Kernel -> numbers of a row per warp, measured on an H200 as are PROGRAM_LIMIT and ROWS_PER_PROGRAM."""
PROGRAM_LIMIT = 1056
"""Largest number of programs of the backward kernel, which sums over rows: eight per multiprocessor of an H100."""
ROWS_PER_PROGRAM = 16
"""Smallest number of rows per program of the backward kernel."""


class LayerStates(NamedTuple):
    """Hidden states [T, H] between layers, in two dtypes."""

    full: Tensor
    """States that the residual connection adds, and that readers of hidden states get."""
    cast: Tensor
    """States that the next product multiplies: a copy in autocast's dtype, or the same tensor as `full`."""


def is_fused(product_TH: Tensor) -> bool:
    """Returns True if `add_and_norm` applies to a product of this device, dtype and width."""
    device, width = product_TH.device, product_TH.shape[1]
    fits = device.type == "cuda" and product_TH.dtype in DTYPES and width <= WIDTH_LIMIT
    return fits and is_right(device, product_TH.dtype, width)


@functools.cache
def is_right(device: torch.device, dtype: torch.dtype, width: int) -> bool:
    """Returns True if the kernels work on this machine; tested once per process and shape."""
    return is_proved("LayerNorm", device, lambda: _compare(device, dtype, width))


def _compare(device: torch.device, dtype: torch.dtype, width: int) -> list[tuple[Tensor | None, Tensor | None]]:
    """Computes three rows forward and backward, without dropout, with these kernels and with torch's."""
    numbers = torch.linspace(-3, 3, 9 * width, device=device).cos().view(9, width)
    norm = nn.LayerNorm(width, device=device)
    inputs = (numbers[:3].to(dtype), numbers[3].to(dtype), numbers[4:7])
    fused_inputs, torch_inputs = ([part.clone().requires_grad_() for part in inputs] for _ in range(2))
    product, bias, x = fused_inputs
    added = torch_inputs[2] + torch_inputs[0].float() + torch_inputs[1].float()
    expected = F.layer_norm(added, (width,), norm.weight, norm.bias, norm.eps)
    full, cast = add_and_norm(product, bias, x, norm, 0.0)
    for result, copy in ((full, cast), (expected, expected.to(dtype))):
        (result * numbers[6:] + copy * numbers[7]).sum().backward()
    pairs = zip(fused_inputs, torch_inputs, strict=True)
    return [(full, expected), *((fused.grad, plain.grad) for fused, plain in pairs)]


def add_and_norm(product_TH: Tensor, bias_H: Tensor, x_TH: Tensor, norm: nn.LayerNorm, rate: float) -> LayerStates:
    """Returns `norm(x_TH + dropout(product_TH + bias_H))`, and its copy in the product's dtype."""
    tensors = (product_TH.contiguous(), bias_H, x_TH.contiguous(), norm.weight, norm.bias)
    return LayerStates(*AddAndNorm.apply(*tensors, norm.eps, rate))


class AddAndNorm(torch.autograd.Function):
    """Autograd function of `add_and_norm`."""

    @staticmethod
    def forward(
        ctx: Any,
        product_TH: Tensor,
        bias_H: Tensor,
        x_TH: Tensor,
        weight_H: Tensor,
        shift_H: Tensor,
        epsilon: float,
        rate: float,
    ) -> tuple[Tensor, Tensor]:
        full_TH, cast_TH = torch.empty_like(x_TH), torch.empty_like(product_TH)
        ctx.set_materialize_grads(False)
        ctx.numbers = (draw_seed() if rate else 0, rate, epsilon)
        ctx.save_for_backward(product_TH, bias_H, x_TH, weight_H)
        tensors = (product_TH, bias_H, x_TH, weight_H, shift_H, full_TH, cast_TH)
        _run("norm", len(x_TH), x_TH.shape[1], *tensors, *ctx.numbers, rate > 0)
        return full_TH, cast_TH

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        product_TH, bias_H, x_TH, weight_H = ctx.saved_tensors
        by_full, by_cast = (None if grad is None else grad.contiguous() for grad in grads)
        by_product, by_x = torch.empty_like(product_TH), torch.empty_like(x_TH)
        rows, width = x_TH.shape
        programs = max(1, min(PROGRAM_LIMIT, rows // ROWS_PER_PROGRAM))
        sums_P3H = x_TH.new_empty(programs, 3, width, dtype=torch.float32)
        gradients = (x_TH if by_full is None else by_full, product_TH if by_cast is None else by_cast)
        tensors = (*gradients, product_TH, bias_H, x_TH, weight_H, by_product, by_x, sums_P3H)
        flags = (ctx.numbers[1] > 0, by_full is not None, by_cast is not None)
        _run("norm_back", programs, width, *tensors, rows, *ctx.numbers, *flags)
        by_weight, by_shift, by_bias = sums_P3H.sum(0)
        by_vectors = by_weight.to(weight_H.dtype), by_shift.to(weight_H.dtype)
        return by_product, by_bias.to(bias_H.dtype), by_x, *by_vectors, None, None


def _run(name: str, programs: int, width: int, *arguments: Any) -> None:
    block = max(16, 1 << (width - 1).bit_length())
    warps = max(1, block // NUMBERS_PER_WARP[name])
    load_kernel(f"norm_kernels:{name}")[(programs,)](*arguments, width, block, num_warps=warps)
