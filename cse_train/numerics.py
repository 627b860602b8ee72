"""fp32 matrix products through oneDNN where it really computes fp32.

On CPUs without AMX, oneDNN's "bf16 allowed" mode still multiplies in fp32 and is faster than the default
path on AMD. Where it would round to bf16 the gate sees the error and leaves the default on.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch

ALLOWED_ERROR = 1e-5
"""Largest error of a 512-term product of unit normals relative to its scale; bf16 shows about 3e-3."""


@contextmanager
def fast_fp32() -> Iterator[bool]:
    """Use oneDNN's matrix products inside the block when they pass the gate; yields whether they did."""
    matmul = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = matmul.fp32_precision
    passed = onednn_is_exact()
    try:
        if passed:
            matmul.fp32_precision = "bf16"
        yield passed
    finally:
        matmul.fp32_precision = before


def onednn_multiplies() -> bool:
    """Whether the caller stands inside a `fast_fp32` that passed its gate, on a torch that has oneDNN's linear."""
    matmul = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    return matmul.fp32_precision == "bf16" and hasattr(torch.ops.mkldnn, "_linear_pointwise")


@cache
def onednn_is_exact() -> bool:
    """Measure oneDNN's fast mode against fp64 on this machine."""
    if not torch.backends.mkldnn.is_available():
        return False
    matmul = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = matmul.fp32_precision
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.randn(256, 512, generator=generator) for _ in range(2))
    try:
        matmul.fp32_precision = "bf16"
        error = (left @ right.T).double() - left.double() @ right.double().T
    finally:
        matmul.fp32_precision = before
    return bool(error.abs().max() / 512**0.5 < ALLOWED_ERROR)


TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""mallopt's names (malloc.h): free bytes at the heap's top, and the size of a block, that go back to the system."""
LARGEST = 2**31 - 1


def keep_freed_memory() -> bool:
    """Ask glibc to keep what is freed, for the rest of the process; False where the C library is another."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all(mallopt(name, LARGEST) == 1 for name in (TRIM_THRESHOLD, MMAP_THRESHOLD))
