"""Writes files and cache folders whole or not at all, and knows the names of the files in a run's folder.

A cache folder is built under a temporary name and appears under its final name by one rename, so readers never see half
of it. A builder takes a lock so that others wait instead of doing the same work, but nothing depends on the lock: two
builders at once both succeed, and a folder that cannot be loaded is built again.
"""

import contextlib
import errno
import fcntl
import glob
import hashlib
import json
import os
import re
import shutil
import socket
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from safetensors import SafetensorError

from cse_train.fields import ConfigError

BEST_FOLDER, LAST_FOLDER = "best", "last"
"""Subfolders of a run's folder: the best model to use, and the state to resume from; `checkpoint` writes both."""
PROGRAM_MARK = "cse_run.json"
"""File beside the best model of a user's program that names the model's run, step and score."""
PROGRAM_POINTS = Path(LAST_FOLDER, "points.jsonl")
"""Path, in the folder of a program's run, of the points that the program reported."""
PROGRAM_DIGESTS = "best_sha256.json"
"""File in the folder of a program's run that has ended: checksums of its best model's files, if it saved a model."""
HOST = re.sub(r"[^A-Za-z0-9-]+", "-", socket.gethostname())
"""Name of this machine in the names of temporary files: other machines may share the folder."""

FOLDER_TRIES = 5

T = TypeVar("T")


def cache_folder() -> Path:
    """Returns the folder CSE_CACHE, else cse-search's folder in the user's cache."""
    return Path(os.environ.get("CSE_CACHE") or Path.home() / ".cache" / "cse-search")


def holds_program_model(folder: Path) -> bool:
    """Returns True if a folder holds the best model of a program's run, as the program's own library saved it."""
    return (folder / PROGRAM_MARK).is_file()


def lacks_program_model(run_folder: Path) -> str | None:
    """Returns the message for a program's run that has no model, or no longer has one; None for any other folder."""
    digests = run_folder / PROGRAM_DIGESTS
    of_program = digests.is_file() or (run_folder / PROGRAM_POINTS).is_file()
    if not of_program or holds_program_model(run_folder / BEST_FOLDER):
        return None
    files = read_digests(run_folder)
    if files:
        return f"no model: run={run_folder}, its program's model was deleted; cse doctor --repair has it trained again"
    reason = "its program saved none" if files is not None else "its program saved none, or cse clean freed it"
    advice = "save one into `best_dir` or `cse.best_folder()` after a report that was the best"
    return f"no model: run={run_folder}, {reason}; {advice}"


def write_digests(run_folder: Path) -> None:
    """Writes the checksums of a program's best model into its run's folder; an empty list if it saved none."""
    best = run_folder / BEST_FOLDER
    paths = sorted(path for path in best.rglob("*") if path.is_file())
    files = {path.relative_to(best).as_posix(): hash_file(path) for path in paths}
    text = json.dumps({"files": files, "sha256": _sum_digests(files)}, indent=1)
    replace_text(run_folder / PROGRAM_DIGESTS, text + "\n")


def read_digests(run_folder: Path) -> dict[str, str] | None:
    """Returns file name -> SHA-256 of a program's best model; None if they were never written or are damaged."""
    try:
        content = json.loads((run_folder / PROGRAM_DIGESTS).read_bytes())
        files: dict[str, str] = content["files"]
        return files if content["sha256"] == _sum_digests(files) else None
    except (FileNotFoundError, NotADirectoryError, ValueError, TypeError, KeyError, RecursionError):
        return None


def hash_file(path: Path) -> str:
    """Returns the SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _NotCopied(Exception):
    """Ends a `shutil.copytree` at its first error, which it carries."""

    def __init__(self, error: OSError) -> None:
        self.error = error


def copy_tree(source: Path, destination: Path, copy: Callable[[str, str], object] = shutil.copy2) -> None:
    """Copies a folder as `shutil.copytree` does, but raises the operating system's first error with the file's name.

    `shutil.copytree` itself collects all errors as texts, without error number or file.
    """

    def copy_file(file: str, target: str) -> None:
        try:
            copy(file, target)
        except OSError as error:
            error.filename = target if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.filename or target
            raise _NotCopied(error) from error

    try:
        shutil.copytree(source, destination, copy_function=copy_file)
    except _NotCopied as ended:
        raise ended.error from None


def _sum_digests(files: Mapping[str, str]) -> str:
    """Returns a checksum of the list of checksums: a flipped bit in the list must not pass for one in the model."""
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Lets `write` fill a temporary file beside `path`, flushes it to disk and renames it to `path`.

    Nothing half-written is ever at `path`. Raises OSError with the file's name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # The temporary file lies in the same folder: a rename is atomic only within one file system.
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.{HOST}.*"):  # of killed processes
        if leftover.suffix[1:].isdigit() and not alive(int(leftover.suffix[1:])):
            leftover.unlink(missing_ok=True)
    aside = path.with_name(f".{path.name}.{HOST}.{uuid.uuid4().hex[:8]}.{os.getpid()}")  # `writer_of` reads it
    try:
        _call_writer(write, aside)
        with aside.open("rb+") as written:
            os.fsync(written.fileno())
        os.replace(aside, path)
    except OSError as error:
        if error.errno is not None:
            error.filename = error.filename or str(path)  # a full disk names no file
        raise
    finally:
        aside.unlink(missing_ok=True)


def replace_text(path: Path, text: str) -> None:
    """Writes a text to `path` in UTF-8, whole or not at all, with line ends as they are."""
    replace_file(path, lambda aside: aside.write_bytes(text.encode()))


def writer_of(path: Path) -> int | None:
    """Returns the number of this machine's process that writes a temporary file of this name; None for other names."""
    match = re.fullmatch(rf"\..+\.{re.escape(HOST)}\.(?:[0-9a-f]{{8}}\.)?([0-9]+)", path.name)
    return int(match[1]) if match else None


def alive(process: int) -> bool:
    """Returns True if a process of this number runs on this machine."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _call_writer(write: Callable[[Path], object], path: Path) -> None:
    """Calls `write`, and raises OSError for a full disk, for which torch and safetensors have errors of their own."""
    try:
        write(path)
    except (RuntimeError, SafetensorError) as error:
        full = isinstance(error.__context__, OSError) or "No space left" in str(error)
        if not full:
            raise
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error


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
        for other in folder.parent.glob(f"{folder.name}.{socket.gethostname()}.*"):
            # Builders of this host alone: on a shared disk, the process numbers of another host mean nothing here.
            pid = other.suffix.removeprefix(".").removesuffix("-damaged")
            if pid.isdigit() and not alive(int(pid)):
                shutil.rmtree(other, ignore_errors=True)
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
