"""Tests whether GPU kernels can be compiled on this machine and compute the right numbers; helpers of their modules."""

import errno
import functools
import importlib.util
import logging
import os
import pkgutil
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cse_train.reading import chain, first_line, is_out_of_memory

log = logging.getLogger(__name__)

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
        if any(map(_is_passing, chain(error))):
            raise
        log.warning("slow %s: the kernels for it cannot be used here: %s", operation, first_line(error))
        return False


def _is_passing(error: BaseException) -> bool:
    """Returns True if the failed call may succeed when repeated.

    A compiler that a signal ended counts: it was killed for its memory.
    """
    if isinstance(error, subprocess.CalledProcessError):
        return error.returncode < 0
    return is_out_of_memory(error) or (isinstance(error, OSError) and error.errno in PASSING_ERRNOS)


def _is_near(result: Tensor | None, reference: Tensor | None) -> bool:
    assert result is not None and reference is not None
    return bool((result - reference).abs().max() <= LARGEST_DIFFERENCE * reference.abs().max())


@functools.cache
def load_kernel(name: str) -> Any:
    """Returns a kernel of this folder by "module:name"; Triton is imported when the first one is wanted."""
    return pkgutil.resolve_name(f"{__package__}.{name}")


def draw_seed() -> int:
    """Draws the seed for the dropout masks of one call from the host's generator, so that nothing waits for the GPU."""
    return int(torch.randint(DROPOUT_SEEDS, ()).item())
