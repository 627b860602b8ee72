"""Self-attention of length groups by torch's fused GPU kernels, which store no scores and no dropout mask.

Shape suffixes: N rows (sequences in all views, packed order), T packed slots, R rows of a group, M queries of a row, W
slots of a row, A heads, H hidden size, D head size, P prompts.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from cse_train.encoder.attention import KeysValues
from cse_train.encoder.card.short_attention import attend_short, find_block, locate_rows
from cse_train.encoder.packing import Packed

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
        bias = group.bias_of(views)
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
    groups = zip(blocks, masks.of_groups, _by_group(prompts, packed, views), strict=True)
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


def _by_group(prompts: KeysValues | None, packed: Packed, views: int) -> list[KeysValues | None]:
    """Splits a layer's prompts into the rows of each group."""
    if prompts is None:
        return [None] * len(packed.groups)
    sizes = [views * group.rows for group in packed.groups]
    return list(zip(*(part.split(sizes) for part in prompts), strict=True))
