"""Self-attention of short rows on a GPU, in bf16 or fp16: one kernel forward and one backward for all length groups.

torch's fused kernels are made for long rows. Of 32 tokens they compute a tile of 64 or 128, need a call for each group
and a mask where rows are padded. Shape suffixes: N packed rows, T packed slots, H hidden size.
"""

import functools
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from cse_train import distributed
from cse_train.encoder.card.compilers import DTYPES, draw_seed, is_proved, load_kernel
from cse_train.encoder.packing import Packed, pack_lists

SLOT_LIMIT = 64
"""Largest width of a row: one program of the kernel holds all of its scores."""
HEAD_SIZES = (16, 32, 64, 128)
SCORE_LIMIT = 2**31
"""Largest number of scores in one call, through which dropout's random numbers are counted."""


def find_block(packed: Packed, rows: int, size: int, dtype: torch.dtype) -> int:
    """Returns the `block` of `attend_short` for so many rows, all heads counted; 0 if the kernel does not apply."""
    device, widest = packed.ids_T.device, max(group.width for group in packed.groups)
    block = max(16, 1 << (widest - 1).bit_length())
    fits = widest <= SLOT_LIMIT and rows * block**2 < SCORE_LIMIT and size in HEAD_SIZES and dtype in DTYPES
    return block if fits and device.type == "cuda" and is_right(device, dtype, size, block) else 0


@functools.cache
def is_right(device: torch.device, dtype: torch.dtype, size: int, block: int) -> bool:
    """Returns True if the kernels work on this machine; tested once per process and shape."""
    return is_proved("attention of short rows", device, lambda: _compare(device, dtype, size, block))


def _compare(
    device: torch.device, dtype: torch.dtype, size: int, block: int
) -> list[tuple[Tensor | None, Tensor | None]]:
    """Computes two rows of `block` tokens in two heads, forward and backward, with these kernels and with torch's."""
    packed = pack_lists([[0] * block] * 2, groups=1).to(device)
    values = torch.linspace(-3, 3, 2 * block * 6 * size, device=device).cos().view(2 * block, 6 * size).to(dtype)
    fused_qkv, torch_qkv = (values.clone().requires_grad_() for _ in range(2))
    mixed = attend_short(fused_qkv, locate_rows(packed), 1, 2, 0.0, block)
    parts = torch_qkv.float().view(2, block, 3, 2, size).permute(2, 0, 3, 1, 4)
    expected = F.scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2).flatten(0, 1)
    for result in (mixed, expected):
        result.backward(torch.ones_like(result) * torch.arange(2 * size, device=device).to(result.dtype).sin())
    return [(mixed, expected), (fused_qkv.grad, torch_qkv.grad)]


def locate_rows(packed: Packed) -> Tensor:
    """Returns int32 [N, 5], on the pack's device: where each packed row lies.

    The columns are: its group's first slot in one view, its place in the group, the group's number of rows, its width,
    its length.
    """
    rows = np.array([group.rows for group in packed.groups])
    widths = np.array([group.width for group in packed.groups])
    first_slots, first_rows = np.cumsum(rows * widths) - rows * widths, np.cumsum(rows) - rows
    of_groups = np.stack([first_slots, -first_rows, rows, widths], 1).repeat(rows, 0)
    of_groups[:, 1] += np.arange(len(of_groups))
    places = np.concatenate([of_groups, packed.host_lengths_N.numpy()[:, None]], 1)
    return distributed.copy_to(torch.from_numpy(places.astype(np.int32)), packed.ids_T.device)


def attend_short(qkv_T3H: Tensor, places_N5: Tensor, views: int, heads: int, rate: float, block: int) -> Tensor:
    """Returns the attention's output [T, H], as `attend_packed` does.

    `block`, a power of two, is at least the width of the widest row.
    """
    mixed: Tensor = ShortAttention.apply(qkv_T3H, places_N5, views, heads, rate, block)
    return mixed


class ShortAttention(torch.autograd.Function):
    """Autograd function of `attend_short`."""

    @staticmethod
    def forward(
        ctx: Any, qkv_T3H: Tensor, places_N5: Tensor, views: int, heads: int, rate: float, block: int
    ) -> Tensor:
        seed = draw_seed() if rate else 0
        mixed_TH = qkv_T3H.new_empty(len(qkv_T3H), qkv_T3H.shape[1] // 3)
        size = mixed_TH.shape[1] // heads
        ctx.numbers = (len(places_N5), seed, rate, size**-0.5, heads, views, size, block, rate > 0)
        ctx.save_for_backward(qkv_T3H, places_N5)
        _run("mix", [qkv_T3H, mixed_TH, places_N5], ctx.numbers)
        return mixed_TH

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        qkv_T3H, places_N5 = ctx.saved_tensors
        by_qkv = torch.empty_like(qkv_T3H)
        _run("mix_back", [qkv_T3H, grads[0].contiguous(), by_qkv, places_N5], ctx.numbers)
        return by_qkv, None, None, None, None, None


def _run(name: str, tensors: list[Tensor], numbers: tuple[Any, ...]) -> None:
    kernel = load_kernel(f"short_kernels:{name}")
    rows, heads, views, block = numbers[0], numbers[4], numbers[5], numbers[7]
    kernel[(rows * views * heads,)](*tensors, *numbers, num_warps=2 if block <= 32 else 4)
