"""A cache folder that is built once and read by many processes.

A folder is built under a temporary name and appears under its final name by one rename, so readers never see half of
it. A builder takes a lock so that others wait instead of doing the same work, but nothing depends on the lock: two
builders at once both succeed, and a folder that cannot be loaded is built again.
"""

import contextlib
import fcntl
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from cse_train.fields import ConfigError
from cse_train.files import alive

FOLDER_TRIES = 5

T = TypeVar("T")


def open_built(folder: Path, load: Callable[[Path], T | None], write: Callable[[Path], None]) -> T:
    """Returns `load(folder)`, after `write` has built the folder if `load` gave None: absent or damaged.

    Raises ConfigError when the folder cannot be written.
    """
    for _ in range(FOLDER_TRIES):
        loaded = load(folder)
        if loaded is not None:
            return loaded
        try:
            _build_once(folder, load, write)
        except OSError as error:
            line = f"cannot write: token cache={folder.parent} ({error})"
            raise ConfigError([f"{line}; free space or set CSE_CACHE"]) from error
    raise AssertionError(f"token cache: {folder} is damaged as fast as it is built")


def _build_once(folder: Path, load: Callable[[Path], object], write: Callable[[Path], None]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _wait_for_others(folder):
        # Another builder may have finished it while this one waited for the lock.
        if load(folder) is not None:
            return
        _sweep_dead_builders(folder)
        aside = folder.with_name(f"{folder.name}.{socket.gethostname()}.{os.getpid()}")
        try:
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir()
            write(aside)
            _publish(aside, folder, load)
        finally:
            shutil.rmtree(aside, ignore_errors=True)


@contextlib.contextmanager
def _wait_for_others(folder: Path) -> Iterator[None]:
    """Holds a lock beside the folder while the block runs; file systems without locks go on without one."""
    with folder.with_name(folder.name + ".lock").open("w") as lock:
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _sweep_dead_builders(folder: Path) -> None:
    for aside in folder.parent.glob(f"{folder.name}.{socket.gethostname()}.*"):
        # Builders of this host alone: on a shared disk, the process numbers of another host mean nothing here.
        pid = aside.suffix.removeprefix(".").removesuffix("-damaged")
        if pid.isdigit() and not alive(int(pid)):
            shutil.rmtree(aside, ignore_errors=True)


def _publish(aside: Path, folder: Path, load: Callable[[Path], object]) -> None:
    """Renames a finished folder into place; a damaged folder there is moved away first, a sound one wins."""
    if folder.exists() and load(folder) is None:
        damaged = aside.with_name(aside.name + "-damaged")
        with contextlib.suppress(FileNotFoundError):
            folder.rename(damaged)
        shutil.rmtree(damaged, ignore_errors=True)
    try:
        aside.rename(folder)
    except OSError:
        # Another builder was first, and a folder with files cannot be replaced by a rename: its copy is as good.
        if load(folder) is None:
            raise
