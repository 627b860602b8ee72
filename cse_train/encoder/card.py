"""GPU kernels: whether they can be compiled here and compute right, weights cast together, and LayerNorm in one kernel.

**LayerNorm**(x + dropout(product + bias)) in bf16 or fp16 is one kernel forward and one backward. torch takes four
forward and nine back, most of which read and write fp32 rows: of a base encoder's step they were a quarter. The numbers
are those of autocast: sum and result in fp32, and with the result its copy for the next product.

**Casts**: autocast casts each weight and each bias by a kernel of its own, there and back, which on a GPU takes longer
to hand over than to compute; here one copy casts all of a layer's.

Shape suffixes: T rows, H their width, P programs.
"""

import errno
import functools
import importlib.util
import logging
import os
import pkgutil
import shutil
import subprocess
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cse_train.reading import chain, first_line, is_out_of_memory

log = logging.getLogger(__name__)


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


DTYPES = (torch.bfloat16, torch.float16)
"""Dtypes of the products for whose neighbouring operations there are fused kernels."""
LARGEST_DIFFERENCE = 0.03
"""Largest difference from torch's result, relative to its largest number, with which a kernel counts as right."""
DROPOUT_SEEDS = 2**31 - 1
"""Number of seeds for the dropout masks of one call."""
PASSING_ERRNOS = frozenset(
    {errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.EIO, errno.ESTALE}
)
"""Error numbers of the operating system while memory, disk, open files or a mount are lacking."""


def find_lacking() -> str:
    """Returns what torch.compile and Triton's kernels need and cannot find; empty if nothing is missing."""
    if importlib.util.find_spec("triton") is None:
        return "the package triton"
    compilers = (os.environ.get("CC"), "cc", "gcc", "clang")
    return "" if any(name and shutil.which(name) for name in compilers) else "a C compiler"


def is_proved(
    operation: str, device: torch.device, compare: Callable[[], list[tuple[Tensor | None, Tensor | None]]]
) -> bool:
    """Returns True if this machine compiles the kernels for `operation`, and they compute what torch's do.

    `compare` returns pairs: these kernels' result, and torch's. An error that may pass, such as a GPU that a neighbour
    has filled, is raised: it proves nothing, and runs without the kernels have other dropout masks.
    """
    if find_lacking():
        return False
    try:
        with torch.inference_mode(False), torch.enable_grad(), torch.autocast(device.type, enabled=False):
            return all(map(_is_near, *zip(*compare(), strict=True)))
    except Exception as error:  # of a compiler or a card that nobody has tried
        for cause in chain(error):
            killed = isinstance(cause, subprocess.CalledProcessError) and cause.returncode < 0  # for its memory
            lacking = isinstance(cause, OSError) and cause.errno in PASSING_ERRNOS
            if killed or lacking or is_out_of_memory(cause):
                raise
        log.warning("slow %s: the kernels for it cannot be used here: %s", operation, first_line(error))
        return False


def _is_near(result: Tensor | None, reference: Tensor | None) -> bool:
    assert result is not None and reference is not None
    return bool((result - reference).abs().max() <= LARGEST_DIFFERENCE * reference.abs().max())


@functools.cache
def load_kernel(name: str) -> Any:
    """Returns a kernel of `card_kernels`; Triton is imported when the first one is wanted."""
    return pkgutil.resolve_name(f"{__package__}.card_kernels:{name}")


def draw_seed() -> int:
    """Draws the seed for the dropout masks of one call from the host's generator, so that nothing waits for the GPU."""
    return int(torch.randint(DROPOUT_SEEDS, ()).item())


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
    load_kernel(name)[(programs,)](*arguments, width, block, num_warps=warps)
