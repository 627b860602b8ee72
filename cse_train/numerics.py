"""Chooses the library that multiplies matrices on this CPU: the fastest that computes fp32, or bf16 products.

oneDNN's "bf16 allowed" mode multiplies fp32 tensors. On CPUs without AMX its products are those of fp32, on many faster
than torch's default; with AMX it rounds them to bf16. So the one setting is a path for fp32 where it is exact, and one
for `train.precision: bf16` everywhere else. Which path is fastest is measured once for a machine, in less than a
second, and kept in the cache folder: all processes of a machine take the same, also when they are begun again.
"""

import ctypes
import functools
import inspect
import json
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cse_train.files import cache_folder, replace_file

ALLOWED_ERROR = 1e-5
"""Largest error of a 512-term product of unit normals, relative to its scale, that passes for fp32 (bf16: 3e-3)."""
TORCH, ONEDNN, ROUNDED, CAST = "torch", "oneDNN", "oneDNN, which rounds fp32 tensors", "bf16 rows and weights"
"""Names of the paths by which a CPU multiplies; they are keys of the rates in the cache folder."""
TIMED_SHAPES = ((1024, 128, 512), (1024, 256, 1024), (1024, 768, 768))
"""Shapes of the timed products as (rows, inputs, outputs): layers of width 128, 256 and 768."""
REPEATS = 5
GAIN = 1.1
"""Speed-up from which a path replaces the usual one: timings differ by less from one measurement to the next."""


class Diverged(RuntimeError):
    """Training has diverged: the loss is not finite, or no dev evaluation has a score; a repeat would diverge too."""


@contextmanager
def onednn_mode(precision: str) -> Iterator[None]:
    """Sets oneDNN's precision for products of fp32 tensors inside the block."""
    matmul = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    previous = matmul.fp32_precision
    try:
        matmul.fp32_precision = precision
        yield
    finally:
        matmul.fp32_precision = previous


@contextmanager
def tf32(allowed: bool) -> Iterator[None]:
    """Allows or forbids inside the block that a GPU rounds fp32 tensors to TF32, in products and in cuDNN's layers.

    Torch lets cuDNN do so by default, in every Conv1d and LSTM. These names are in torch 2.11 and later, whose newer
    ones (`fp32_precision`) may not be mixed with them.
    """
    owners: tuple[Any, ...] = (torch.backends.cuda.matmul, torch.backends.cudnn)
    previous = [owner.allow_tf32 for owner in owners]
    try:
        for owner in owners:
            owner.allow_tf32 = allowed
        yield
    finally:
        for owner, value in zip(owners, previous, strict=True):
            owner.allow_tf32 = value


@contextmanager
def fast_fp32() -> Iterator[bool]:
    """Computes in fp32 inside the block: a GPU without TF32, a CPU by oneDNN where that is exact and no slower.

    Yields True if oneDNN multiplies.
    """
    with tf32(False):
        if fp32_path() == TORCH:
            yield False
            return
        with onednn_mode("bf16"):
            yield True


@cache
def _onednn_is_exact() -> bool:
    """Returns True if oneDNN's fast mode computes fp32 products on this machine, measured against fp64."""
    if not torch.backends.mkldnn.is_available():
        return False
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.randn(256, 512, generator=generator) for _ in range(2))
    with onednn_mode("bf16"):
        error = (left @ right.T).double() - left.double() @ right.double().T
    return bool(error.abs().max() / 512**0.5 < ALLOWED_ERROR)


def fp32_path() -> str:
    """Returns the path of fp32 products: ONEDNN where it is exact and no slower, else TORCH."""
    rates = gemm_rates()
    return ONEDNN if ONEDNN in rates and rates[TORCH] <= GAIN * rates[ONEDNN] else TORCH


def bf16_path() -> str:
    """Returns the path of bf16 products: ROUNDED where oneDNN rounds fp32 tensors itself, else the path of fp32.

    CAST, which rounds results too, is taken only where it is faster.
    """
    rates = gemm_rates()
    usual = ROUNDED if ROUNDED in rates else fp32_path()
    return CAST if rates.get(CAST, 0.0) > GAIN * rates[usual] else usual


@cache
def gemm_rates() -> Mapping[str, float]:
    """Returns path -> GFLOP/s of one thread, for the paths of this machine; measured once, then read from the cache."""
    key = machine()
    file = cache_folder() / "products.json"
    stored = _read(file)
    paths = _paths()
    if stored.get(key, {}).keys() != paths.keys():
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        stored[key] = {name: round(_rate(product), 1) for name, product in paths.items()}
        torch.set_num_threads(threads)
        with suppress(OSError):  # then the next process measures again
            replace_file(file, functools.partial(Path.write_text, data=json.dumps(stored, indent=1) + "\n"))
    return stored[key]


def _read(file: Path) -> dict[str, dict[str, float]]:
    try:
        stored = json.loads(file.read_text(encoding="utf8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(stored, dict):
        return {}
    return {
        key: rates
        for key, rates in stored.items()
        if isinstance(rates, dict) and all(isinstance(rate, int | float) and rate > 0 for rate in rates.values())
    }


def machine() -> str:
    """Returns a text that identifies the processor and the version of torch, for which measured rates are valid.

    Clouds give several generations of processors one name; family and model number distinguish them.
    """
    return f"{_cpu()}, {torch.backends.cpu.get_cpu_capability()}, torch {torch.__version__}"


def _cpu() -> str:
    facts = {}
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf8").partition("\n\n")[0].splitlines():
            name, _, value = line.partition(":")
            facts[name.strip()] = value.strip()
    names = [facts[name] for name in ("model name", "cpu family", "model") if facts.get(name)]
    return " ".join(names) or platform.processor() or platform.machine()


def multiplies_bf16() -> bool:
    """Returns True if this CPU multiplies in bf16; others take 40 times as long as in fp32, or fail."""
    return torch.backends.mkldnn.is_available() and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """Returns the autocast context of `train.precision`; a CPU without bf16 products computes in fp32."""
    computed = precision_of(device, precision)
    dtype = torch.float16 if computed == "fp16" else torch.bfloat16
    return torch.autocast(device.type, dtype, enabled=computed in ("bf16", "fp16"))


def precision_of(device: torch.device, precision: str) -> str:
    """Returns the precision in which a device computes, given `train.precision`: fp32 where it lacks the wanted one."""
    if device.type == "cpu":
        is_available = precision == "bf16" and multiplies_bf16()
    else:
        is_available = precision != "tf32" or has_bf16(device)  # both came with Ampere
    return precision if is_available else "fp32"


def has_bf16(device: torch.device) -> bool:
    """Returns True if a GPU multiplies in bf16, which one before Ampere, such as T4 and V100, only emulates slowly.

    False for a CPU.
    """
    if device.type != "cuda":
        return False
    if "including_emulation" in inspect.signature(torch.cuda.is_bf16_supported).parameters:
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return torch.cuda.get_device_capability(device) >= (8, 0)


def is_card(device: torch.device) -> bool:
    """Returns True for any device but a CPU; such a device takes the code paths for GPUs.

    They have few kernels, use torch's fused attention, and never make the host wait for a number.
    """
    return device.type != "cpu"


def cast_dtype(device: torch.device) -> torch.dtype | None:
    """Returns the dtype in which autocast multiplies on a GPU; None where autocast is off, and on a CPU."""
    if not is_card(device) or not torch.amp.is_autocast_available(device.type):
        return None
    return torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else None


Product = Callable[[Tensor, Tensor], Tensor]
"""Function that multiplies fp32 matrices [T, I] and [I, O]."""


def _paths() -> dict[str, Product]:
    """Returns path -> function, for the paths that this machine has; each multiplies [T, I] by [I, O], both fp32."""

    def by_onednn(left: Tensor, right: Tensor) -> Tensor:
        with onednn_mode("bf16"):
            return left @ right

    paths: dict[str, Product] = {TORCH: torch.matmul}
    if torch.backends.mkldnn.is_available():
        paths[ONEDNN if _onednn_is_exact() else ROUNDED] = by_onednn
    if multiplies_bf16():
        paths[CAST] = lambda left, right: left.bfloat16() @ right.bfloat16()
    return paths


def _rate(product: Product) -> float:
    """Returns a product's GFLOP/s over TIMED_SHAPES, each at the fastest of its repeats."""
    seconds = operations = 0.0
    for rows, inputs, outputs in TIMED_SHAPES:
        left, right = torch.ones(rows, inputs), torch.ones(inputs, outputs)
        product(left, right)  # oneDNN compiles each new shape; that is not timed
        durations = []
        for _ in range(REPEATS):
            start = time.perf_counter()
            product(left, right)
            durations.append(time.perf_counter() - start)
        seconds += min(durations)
        operations += 2.0 * rows * inputs * outputs
    return operations / seconds / 1e9


_rounded = False
"""True inside `bf16_products`, where `linear` rounds what it multiplies."""


@contextmanager
def bf16_products(device: torch.device) -> Iterator[None]:
    """Replaces a CPU's autocast inside the block: tensors stay fp32, and `linear` alone rounds its factors to bf16.

    Autocast itself rounds the results too, and casts before and after every product. On a GPU, and without autocast,
    the block changes nothing.
    """
    global _rounded
    if is_card(device) or not torch.is_autocast_enabled("cpu"):
        yield
        return
    previous = _rounded
    try:
        _rounded = True
        with torch.autocast("cpu", enabled=False):
            yield
    finally:
        _rounded = previous


def product_path(x: Tensor) -> str:
    """Returns the path on which `linear` multiplies rows x: ONEDNN, ROUNDED, CAST, or TORCH for torch's own linear."""
    if is_card(x.device) or x.ndim != 2 or torch.is_autocast_enabled("cpu"):
        return TORCH
    if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return TORCH
    if _rounded:
        return bf16_path()
    if x.dtype != torch.float32:
        return TORCH
    matmul = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    return ONEDNN if matmul.fp32_precision == "bf16" else TORCH


TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""Parameters of mallopt (malloc.h): free bytes at the heap's top, and block size, from which memory is given back."""
LARGEST_INT = 2**31 - 1


def keep_freed_memory() -> bool:
    """Asks glibc to keep freed memory for the rest of the process; returns False for another C library."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all(mallopt(name, LARGEST_INT) == 1 for name in (TRIM_THRESHOLD, MMAP_THRESHOLD))
