"""Self-attention of length groups by fused GPU kernels, which store no scores and no dropout mask.

torch's are made for long rows: of 32 tokens they compute a tile of 64 or 128, need a call for each group, and a mask
where rows are padded. Short rows, in bf16 or fp16, have one kernel forward and one backward for all length groups.
Shape suffixes: N rows (sequences in all views, packed order), T packed slots, R rows of a group, M queries of a row, W
slots of a row, A heads, H hidden size, D head size, P prompts.
"""

import functools
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from cse_train import distributed
from cse_train.encoder.attention import KeysValues
from cse_train.encoder.card import DTYPES, draw_seed, is_proved, load_kernel
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
    kernel = load_kernel(name)
    rows, heads, views, block = numbers[0], numbers[4], numbers[5], numbers[7]
    kernel[(rows * views * heads,)](*tensors, *numbers, num_warps=2 if block <= 32 else 4)


Parts = tuple[Tensor, ...]
"""Query [R, M, H], key and value [R, W, H] of a group."""
KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""Kernels of torch's attention that may be used.

cuDNN's is left out: it prepares itself for each new shape, and the shapes of batches differ.
"""
MASK_ALIGNMENT = 8
"""Multiple at which the rows of a mask begin, in numbers; otherwise each call would copy the mask."""


class Masks(NamedTuple):
    """Masks for the attention of all layers, in the form that its kernels take."""

    of_groups: list[Tensor | None]
    """Additive bias [R, 1, 1, P + W] of each group's scores; None for a group without padding."""
    places_N5: Tensor | None = None
    """Position of each row (`locate_rows`), for the kernel of short rows; None if torch's kernels are used."""
    block: int = 0


def attention_kernels(device: torch.device) -> AbstractContextManager[None]:
    """Returns a context that restricts the kernels of torch's attention on a CUDA GPU."""
    return sdpa_kernel(KERNELS) if device.type == "cuda" else nullcontext()


def attention_masks(packed: Packed, views: int, prompts: int, dtype: torch.dtype, heads: int, size: int) -> Masks:
    """Builds the masks of all layers, in the dtype in which attention is computed; prompts are never masked."""
    masks: list[Tensor | None] = []
    for group in packed.groups:
        bias = group.bias if group.bias is None or views == 1 else group.bias.repeat(views, 1, 1, 1)
        if bias is not None:  # bf16 rounds fp32's smallest number to -inf: each row has a token that is not masked
            width = prompts + group.width
            bias = F.pad(bias, (prompts, -width % MASK_ALIGNMENT)).to(dtype)[..., :width]
        masks.append(bias)
    block = 0 if prompts else find_block(packed, views * packed.rows * heads, size, dtype)
    return Masks(masks, locate_rows(packed), block) if block else Masks(masks)


def attend_fused(
    qkv_T3H: Tensor, packed: Packed, views: int, heads: int, rate: float, masks: Masks, prompts: KeysValues | None
) -> Tensor:
    """Returns the attention's output [T, H], as `attend_packed` does."""
    if masks.places_N5 is not None:
        return attend_short(qkv_T3H, masks.places_N5, views, heads, rate, masks.block)
    blocks = (block.unflatten(2, (3, -1)).unbind(2) for _, block in packed.split(qkv_T3H, views))
    return _joined(blocks, packed, views, heads, rate, masks, prompts)


def attend_fused_cls(
    query_NH: Tensor,
    kv_T2H: Tensor,
    packed: Packed,
    views: int,
    heads: int,
    rate: float,
    masks: Masks,
    prompts: KeysValues | None,
) -> Tensor:
    """Returns the attention's output [N, H] for one query per row, over keys and values of all its slots."""
    queries = query_NH.unsqueeze(1).split([views * group.rows for group in packed.groups])
    keys_values = (block.unflatten(2, (2, -1)).unbind(2) for _, block in packed.split(kv_T2H, views))
    blocks = ((query, *pair) for query, pair in zip(queries, keys_values, strict=True))
    return _joined(blocks, packed, views, heads, rate, masks, prompts)


def _joined(
    blocks: Iterator[Parts],
    packed: Packed,
    views: int,
    heads: int,
    rate: float,
    masks: Masks,
    prompts: KeysValues | None,
) -> Tensor:
    """Computes the attention of each group and joins the outputs: [all R * M, H]."""
    prefixes: list[KeysValues | None] = [None] * len(packed.groups)
    if prompts is not None:
        sizes = [views * group.rows for group in packed.groups]
        prefixes = list(zip(*(part.split(sizes) for part in prompts), strict=True))
    groups = zip(blocks, masks.of_groups, prefixes, strict=True)
    mixed = [_attend(parts, heads, rate, mask, prefix) for parts, mask, prefix in groups]
    return mixed[0] if len(mixed) == 1 else torch.cat(mixed)


def _attend(parts: Parts, heads: int, rate: float, mask: Tensor | None, prefix: KeysValues | None) -> Tensor:
    """Computes the attention of one group, [R * M, H]; `prefix` goes in front of keys and values.

    Heads are views: without prompts nothing is copied.
    """
    query, key, value = (part.unflatten(2, (heads, -1)).transpose(1, 2) for part in parts)
    if prefix is not None:
        pairs = zip(prefix, (key, value), strict=True)
        key, value = (torch.cat([first.to(rest.dtype), rest], 2) for first, rest in pairs)
    mixed_RAMD = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=rate)
    return mixed_RAMD.transpose(1, 2).flatten(2).flatten(0, 1)
