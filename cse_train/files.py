"""Files that are written whole or not at all."""

import errno
import glob
import hashlib
import json
import os
import re
import shutil
import socket
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

from safetensors import SafetensorError

BEST_FOLDER, LAST_FOLDER = "best", "last"
"""Of a run's folder: where the model to use lies, and the state to go on from; `checkpoint` writes both."""
PROGRAM_MARK = "cse_run.json"
"""Beside the best model of a program of the user's own: which run it is of, the step and the score."""
PROGRAM_POINTS = Path(LAST_FOLDER, "points.jsonl")
"""Of the folder of a program's run: what it reported."""
PROGRAM_DIGESTS = "best_sha256.json"
"""In the folder of a program's run that has ended: the checksums of the files of its best model, if it saved one."""
HOST = re.sub(r"[^A-Za-z0-9-]+", "-", socket.gethostname())
"""This machine, in the names of files that are being written: other machines may share the folder."""


def cache_folder() -> Path:
    """CSE_CACHE, else the user's cache folder."""
    return Path(os.environ.get("CSE_CACHE") or Path.home() / ".cache" / "cse-search")


def holds_program_model(folder: Path) -> bool:
    """Whether a folder is the best model of a program's run, as its own library saved it."""
    return (folder / PROGRAM_MARK).is_file()


def lacks_program_model(run_folder: Path) -> str | None:
    """The line for a program's run that has no model, or none any more; None for any other folder."""
    digests = run_folder / PROGRAM_DIGESTS
    of_program = digests.is_file() or (run_folder / PROGRAM_POINTS).is_file()
    if not of_program or holds_program_model(run_folder / BEST_FOLDER):
        return None
    files = read_digests(run_folder)
    if files:
        return f"no model: run={run_folder}, its program's model was deleted; cse doctor --repair has it trained again"
    why = "its program saved none" if files is not None else "its program saved none, or cse clean freed it"
    advice = "save one into `best_dir`, `trial.best_folder` or `cse.best_folder()` after a report that was the best"
    return f"no model: run={run_folder}, {why}; {advice}"


def write_digests(run_folder: Path) -> None:
    """Note what the files of a program's best model hash to; of a run that saved none, that it has none."""
    best = run_folder / BEST_FOLDER
    paths = sorted(path for path in best.rglob("*") if path.is_file())
    files = {path.relative_to(best).as_posix(): hash_file(path) for path in paths}
    text = json.dumps({"files": files, "sha256": _sum_digests(files)}, indent=1)
    replace_text(run_folder / PROGRAM_DIGESTS, text + "\n")


def read_digests(run_folder: Path) -> dict[str, str] | None:
    """SHA-256 by name of a program's best model; None where nobody noted it, or the note is damaged."""
    try:
        noted = json.loads((run_folder / PROGRAM_DIGESTS).read_bytes())
        files: dict[str, str] = noted["files"]
        return files if noted["sha256"] == _sum_digests(files) else None
    except (FileNotFoundError, NotADirectoryError, ValueError, TypeError, KeyError, RecursionError):
        return None


def hash_file(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _NotCopied(Exception):
    """Ends a copy at its first error."""

    def __init__(self, error: OSError) -> None:
        self.error = error


def copy_tree(source: Path, to: Path, copy: Callable[[str, str], object] = shutil.copy2) -> None:
    """`shutil.copytree` that ends with the system's error and the file: its own has neither the one nor the other."""

    def copy_file(file: str, target: str) -> None:
        try:
            copy(file, target)
        except OSError as error:
            error.filename = target if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.filename or target
            raise _NotCopied(error) from error

    try:
        shutil.copytree(source, to, copy_function=copy_file)
    except _NotCopied as ended:
        raise ended.error from None


def _sum_digests(files: Mapping[str, str]) -> str:
    """Of the note itself: a flipped bit in it must not pass for one in the model."""
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a file beside `path`, flush it to disk and rename it; nothing half-written is ever at `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in find_abandoned(path):
        left.unlink(missing_ok=True)
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
    """`replace_file` with a text, in UTF-8, as it is."""
    replace_file(path, lambda aside: aside.write_bytes(text.encode()))


def writer_of(path: Path) -> int | None:
    """The process of this machine that writes, or wrote, a file under this name; None for other names."""
    named = re.fullmatch(rf"\..+\.{re.escape(HOST)}\.(?:[0-9a-f]{{8}}\.)?([0-9]+)", path.name)
    return int(named[1]) if named else None


def alive(process: int) -> bool:
    """Whether this machine has a process of that number."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def find_abandoned(path: Path) -> list[Path]:
    """What killed processes of this machine have half written for a file at `path`."""
    asides = path.parent.glob(f".{glob.escape(path.name)}.{HOST}.*")
    return [aside for aside in asides if aside.suffix[1:].isdigit() and not alive(int(aside.suffix[1:]))]


def _call_writer(write: Callable[[Path], object], path: Path) -> None:
    """Call `write`; a disk that is full is an OSError, where torch and safetensors have errors of their own."""
    try:
        write(path)
    except (RuntimeError, SafetensorError) as error:
        full = isinstance(error.__context__, OSError) or "No space left" in str(error)
        if not full:
            raise
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error
