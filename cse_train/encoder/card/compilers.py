"""Whether kernels can be made for a card on this machine, and what the modules that bring some share."""

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
"""Of the products whose neighbours have kernels here."""
LARGEST_DIFFERENCE = 0.03
"""Largest difference from torch's own, relative to the largest number, with which kernels count as right."""
DROPOUT_SEEDS = 2**31 - 1
"""A number below it stands for the masks of dropout of one call."""
PASSING_ERRNOS = frozenset(
    {errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.EIO, errno.ESTALE}
)
"""What the system answers while memory, disk, open files or a mount are lacking."""


def find_lacking() -> str:
    """What torch.compile and Triton's kernels need and do not find; empty where all is there."""
    if importlib.util.find_spec("triton") is None:
        return "the package triton"
    compilers = (os.environ.get("CC"), "cc", "gcc", "clang")
    return "" if any(name and shutil.which(name) for name in compilers) else "a C compiler"


def is_proved(
    what: str, device: torch.device, compare: Callable[[], list[tuple[Tensor | None, Tensor | None]]]
) -> bool:
    """Whether this machine makes the kernels for `what`, and they compute what torch's do.

    `compare` gives pairs: ours, and torch's. Raises what passes, such as a card that a neighbour has filled: it proves
    nothing, and runs without the kernels have other masks of dropout.
    """
    if find_lacking():
        return False
    try:
        with torch.inference_mode(False), torch.enable_grad(), torch.autocast(device.type, enabled=False):
            return all(map(_is_near, *zip(*compare(), strict=True)))
    except Exception as error:  # of a compiler or a card that nobody has tried
        if any(map(_is_passing, chain(error))):
            raise
        log.warning("slow %s: the kernels for it cannot be used here: %s", what, first_line(error))
        return False


def _is_passing(error: BaseException) -> bool:
    """Whether the same may succeed another time; a compiler that a signal ended was killed for its memory."""
    if isinstance(error, subprocess.CalledProcessError):
        return error.returncode < 0
    return is_out_of_memory(error) or (isinstance(error, OSError) and error.errno in PASSING_ERRNOS)


def _is_near(ours: Tensor | None, theirs: Tensor | None) -> bool:
    assert ours is not None and theirs is not None
    return bool((ours - theirs).abs().max() <= LARGEST_DIFFERENCE * theirs.abs().max())


@functools.cache
def load_kernel(name: str) -> Any:
    """A kernel of this folder by "module:name": Triton is imported where one is first wanted."""
    return pkgutil.resolve_name(f"{__package__}.{name}")


def draw_seed() -> int:
    """What stands for the masks of one call, from the host's own generator: nothing waits for the card."""
    return int(torch.randint(DROPOUT_SEEDS, ()).item())
