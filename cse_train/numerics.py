"""Which library multiplies matrices on this CPU: the fastest that computes what is asked for, fp32 or bf16 products.

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
"""Largest error of a 512-term product of unit normals relative to its scale; bf16 shows about 3e-3."""
TORCH, ONEDNN, ROUNDED, CAST = "torch", "oneDNN", "oneDNN, which rounds fp32 tensors", "bf16 rows and weights"
TIMED_SHAPES = ((1024, 128, 512), (1024, 256, 1024), (1024, 768, 768))
"""Rows, inputs and outputs of the products that are timed: a layer of 128, of 256 and of 768."""
REPEATS = 5
GAIN = 1.1
"""A path is taken in place of the usual one where it is so much faster: timings differ by less."""


class Diverged(RuntimeError):
    """The loss is no longer a number, or no dev evaluation has a score; the same configuration will diverge again."""


@contextmanager
def onednn_mode(precision: str) -> Iterator[None]:
    """oneDNN's mode for products of fp32 tensors inside the block."""
    matmul = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = matmul.fp32_precision
    try:
        matmul.fp32_precision = precision
        yield
    finally:
        matmul.fp32_precision = before


@contextmanager
def tf32(allowed: bool) -> Iterator[None]:
    """Whether a card may round fp32 tensors to TF32 inside the block, in its products and in cuDNN's layers.

    Torch lets cuDNN do so by default: every Conv1d and LSTM. These names are in torch 2.11 and later, whose newer ones
    (`fp32_precision`) may not be mixed with them.
    """
    owners: tuple[Any, ...] = (torch.backends.cuda.matmul, torch.backends.cudnn)
    before = [owner.allow_tf32 for owner in owners]
    try:
        for owner in owners:
            owner.allow_tf32 = allowed
        yield
    finally:
        for owner, value in zip(owners, before, strict=True):
            owner.allow_tf32 = value


@contextmanager
def fast_fp32() -> Iterator[bool]:
    """fp32 inside the block, on a card without TF32; a CPU's products by oneDNN where these are exact and no slower.

    Yields whether they are oneDNN's.
    """
    with tf32(False):
        if fp32_path() == TORCH:
            yield False
            return
        with onednn_mode("bf16"):
            yield True


@cache
def onednn_is_exact() -> bool:
    """Measure oneDNN's fast mode against fp64 on this machine."""
    if not torch.backends.mkldnn.is_available():
        return False
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.randn(256, 512, generator=generator) for _ in range(2))
    with onednn_mode("bf16"):
        error = (left @ right.T).double() - left.double() @ right.double().T
    return bool(error.abs().max() / 512**0.5 < ALLOWED_ERROR)


def fp32_path() -> str:
    """ONEDNN where it is exact, else TORCH; TORCH also where it is faster."""
    rates = gemm_rates()
    return ONEDNN if ONEDNN in rates and rates[TORCH] <= GAIN * rates[ONEDNN] else TORCH


def bf16_path() -> str:
    """ROUNDED where oneDNN has it, else that of fp32: CAST, which rounds results too, only where it is faster."""
    rates = gemm_rates()
    usual = ROUNDED if ROUNDED in rates else fp32_path()
    return CAST if rates.get(CAST, 0.0) > GAIN * rates[usual] else usual


@cache
def gemm_rates() -> Mapping[str, float]:
    """Path -> GFLOP/s of one thread on this machine, of those that it has; measured once, then read from the cache."""
    key = machine()
    file = cache_folder() / "products.json"
    kept = _read(file)
    paths = _paths()
    if kept.get(key, {}).keys() != paths.keys():
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        kept[key] = {name: round(_rate(product), 1) for name, product in paths.items()}
        torch.set_num_threads(threads)
        with suppress(OSError):  # then the next process measures again
            replace_file(file, functools.partial(Path.write_text, data=json.dumps(kept, indent=1) + "\n"))
    return kept[key]


def _read(file: Path) -> dict[str, dict[str, float]]:
    try:
        kept = json.loads(file.read_text(encoding="utf8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(kept, dict):
        return {}
    return {
        key: rates
        for key, rates in kept.items()
        if isinstance(rates, dict) and all(isinstance(rate, int | float) and rate > 0 for rate in rates.values())
    }


def machine() -> str:
    """What the rates hold for. Clouds give several generations of processors one name: numbers tell them apart."""
    return f"{_cpu()}, {torch.backends.cpu.get_cpu_capability()}, torch {torch.__version__}"


def _cpu() -> str:
    said = {}
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf8").partition("\n\n")[0].splitlines():
            name, _, value = line.partition(":")
            said[name.strip()] = value.strip()
    names = [said[name] for name in ("model name", "cpu family", "model") if said.get(name)]
    return " ".join(names) or platform.processor() or platform.machine()


def multiplies_bf16() -> bool:
    """Whether this CPU multiplies in bf16; others take 40 times as long as in fp32, or fail."""
    return torch.backends.mkldnn.is_available() and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """What `train.precision` asks for, inside the block; a CPU without products in bf16 computes in fp32."""
    computed = precision_of(device, precision)
    dtype = torch.float16 if computed == "fp16" else torch.bfloat16
    return torch.autocast(device.type, dtype, enabled=computed in ("bf16", "fp16"))


def precision_of(device: torch.device, precision: str) -> str:
    """What a device computes where `train.precision` asks for this: fp32 where it does not have it."""
    if device.type == "cpu":
        able = precision == "bf16" and multiplies_bf16()
    else:
        able = precision != "tf32" or has_bf16(device)  # both came with Ampere
    return precision if able else "fp32"


def has_bf16(device: torch.device) -> bool:
    """Whether a card multiplies in bf16: one before Ampere, such as T4 and V100, emulates it slowly. False of a CPU."""
    if device.type != "cuda":
        return False
    if "including_emulation" in inspect.signature(torch.cuda.is_bf16_supported).parameters:
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return torch.cuda.get_device_capability(device) >= (8, 0)


def is_card(device: torch.device) -> bool:
    """Whether code for cards runs there: fewer kernels, as torch's fused attention, and no wait for a number."""
    return device.type != "cpu"


def cast_dtype(device: torch.device) -> torch.dtype | None:
    """What autocast multiplies in on a card; None where it is off, and on a CPU."""
    if not is_card(device) or not torch.amp.is_autocast_available(device.type):
        return None
    return torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else None


Product = Callable[[Tensor, Tensor], Tensor]


def _paths() -> dict[str, Product]:
    """The paths that this machine has; each multiplies [T, I] by [I, O], both fp32."""

    def by_onednn(left: Tensor, right: Tensor) -> Tensor:
        with onednn_mode("bf16"):
            return left @ right

    paths: dict[str, Product] = {TORCH: torch.matmul}
    if torch.backends.mkldnn.is_available():
        paths[ONEDNN if onednn_is_exact() else ROUNDED] = by_onednn
    if multiplies_bf16():
        paths[CAST] = lambda left, right: left.bfloat16() @ right.bfloat16()
    return paths


def _rate(product: Product) -> float:
    """GFLOP/s over TIMED_SHAPES, each at the fastest of its repeats."""
    seconds = operations = 0.0
    for rows, inputs, outputs in TIMED_SHAPES:
        left, right = torch.ones(rows, inputs), torch.ones(inputs, outputs)
        product(left, right)
        took = []
        for _ in range(REPEATS):
            begun = time.perf_counter()
            product(left, right)
            took.append(time.perf_counter() - begun)
        seconds += min(took)
        operations += 2.0 * rows * inputs * outputs
    return operations / seconds / 1e9


_rounded = False
"""Whether the caller stands inside `bf16_products`."""


@contextmanager
def bf16_products(device: torch.device) -> Iterator[None]:
    """On a CPU under autocast: fp32 tensors inside the block, of which `linear` alone rounds what it multiplies.

    Autocast rounds the results too, and casts before and after every product. Elsewhere nothing is changed.
    """
    global _rounded
    if is_card(device) or not torch.is_autocast_enabled("cpu"):
        yield
        return
    before = _rounded
    try:
        _rounded = True
        with torch.autocast("cpu", enabled=False):
            yield
    finally:
        _rounded = before


def product_path(x: Tensor) -> str:
    """How `linear` multiplies the rows x: ONEDNN, ROUNDED, CAST, or TORCH for torch's own linear."""
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
"""mallopt's names (malloc.h): free bytes at the heap's top, and the size of a block, that go back to the system."""
LARGEST_INT = 2**31 - 1


def keep_freed_memory() -> bool:
    """Ask glibc to keep what is freed, for the rest of the process; False where the C library is another."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all(mallopt(name, LARGEST_INT) == 1 for name in (TRIM_THRESHOLD, MMAP_THRESHOLD))
