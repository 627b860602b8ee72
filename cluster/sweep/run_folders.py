"""A run's folders in a storage: one for each attempt, and each of one ledger alone, whoever else uses the storage.

STORAGE/runs/SIGNATURE is a run's home. An attempt's folder there is named by its number, and by one more where another
ledger has that name. A file in it says whose it is, and with what it was trained.
"""

import contextlib
import itertools
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from analysis.ledger import Claim, RunRow
from analysis.ledger.rows import HistoryRow

FINAL = "final"
"""How the name of a finished attempt's folder begins; ledgers of 0.1.0 have this name alone."""
SET_ASIDE = "unbooked"
"""The same of a finished attempt whose run is trained once more."""
KINDS = ("attempt", SET_ASIDE, FINAL)
MARK = "attempt.json"
KEPT = ("best", "last")
"""Folders of a finished attempt that another ledger takes over."""


def begin(home: Path, claim: Claim, provenance: Mapping[str, Any]) -> Path:
    """Make the folder of an attempt: it is nobody else's, also where two drivers ask at one moment. OSError."""
    home.mkdir(parents=True, exist_ok=True)
    for number in itertools.count(1):
        folder = home / f"attempt-{claim.attempt}{f'-{number}' if number > 1 else ''}"
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        if any(other.is_dir() for other in _names(folder) if other != folder):
            folder.rmdir()
            continue
        about = {"attempt": claim.attempt, "owner": claim.owner, "provenance": dict(provenance)}
        (folder / MARK).write_text(json.dumps(about), encoding="utf8")
        return folder
    raise AssertionError


def _names(folder: Path) -> Iterator[Path]:
    """What a folder of an attempt may be called in the course of time."""
    end = folder.name.partition("-")[2]
    return (folder.with_name(f"{kind}-{end}" if end else kind) for kind in KINDS)


def published(folder: Path) -> Path:
    """What the folder of an attempt is called once the attempt is finished."""
    return folder.with_name(f"{FINAL}-{folder.name.partition('-')[2]}")


def set_aside(folder: Path, attempt: int) -> None:
    """Rename a finished attempt's folder whose run is to be trained again, not continued."""
    folder.rename(folder.with_name(f"{SET_ASIDE}-{folder.name.partition('-')[2] or attempt}"))


def finished(home: Path) -> list[Path]:
    """The folders of all finished attempts, whichever ledger has them, newest first."""
    folders = list[Path]()
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        folders = [Path(entry.path) for entry in os.scandir(home) if entry.name.startswith(FINAL)]
    return sorted((path for path in folders if path.is_dir() and not path.is_symlink()), key=_number, reverse=True)


def _number(folder: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in folder.name.split("-")[1:] if part.isdigit())


def provenance(folder: Path) -> dict[str, Any]:
    """With what an attempt was trained, as far as its folder says."""
    details = _mark(folder).get("provenance")
    return details if isinstance(details, dict) else {}


def owns(attempts: Iterable[HistoryRow | RunRow], folder: Path) -> bool:
    """Whether a folder in a run's home is one of these attempts of a ledger.

    Folders of versions before have no mark, and are taken for its own where it has had an attempt of that number.
    """
    mark, end = _mark(folder), folder.name.partition("-")[2]
    if mark:
        return _is_of(attempts, mark)
    return not end or any(end == str(row.attempt) for row in attempts)


def is_others(attempts: Iterable[HistoryRow], folder: Path) -> bool:
    """Whether a folder in a run's home says that it is none of these attempts."""
    mark = _mark(folder)
    return bool(mark) and not _is_of(attempts, mark)


def _is_of(attempts: Iterable[HistoryRow | RunRow], mark: Mapping[str, Any]) -> bool:
    return any((mark.get("attempt"), mark.get("owner")) == (row.attempt, row.owner) for row in attempts)


def take_over(source: Path, folder: Path) -> None:
    """Give an attempt's folder the checkpoints of a finished one: links to the same files, which nobody changes.

    OSError; FileNotFoundError where they were deleted meanwhile.
    """
    for name in KEPT:
        (folder / name).mkdir()
        for file in (source / name).iterdir():
            if not file.name.startswith("."):
                _link(file, folder / name / file.name)


def _link(source: Path, to: Path) -> None:
    try:
        to.hardlink_to(source)
    except FileNotFoundError:
        raise
    except OSError:  # a file system without links
        shutil.copyfile(source, to)


def _mark(folder: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError, RecursionError):
        mark = json.loads((folder / MARK).read_text(encoding="utf8"))
        return mark if isinstance(mark, dict) else {}
    return {}
