"""Files that are written whole or not at all."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

from safetensors import SafetensorError


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a file beside `path`, flush it to disk and rename it; nothing half-written is ever at `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        _written(write, aside)
        with aside.open("rb+") as written:
            os.fsync(written.fileno())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def _written(write: Callable[[Path], object], path: Path) -> None:
    """Call `write`; a disk that is full is an OSError, where torch and safetensors have errors of their own."""
    try:
        write(path)
    except (RuntimeError, SafetensorError) as error:
        full = isinstance(error.__context__, OSError) or "No space left" in str(error)
        if not full:
            raise
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error
