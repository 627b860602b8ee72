"""Folders of a run's attempts: each belongs to one ledger alone, whichever ledgers share the storage."""

import contextlib
import itertools
import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from analysis.ledger import Claim, RunRow
from analysis.ledger.rows import HistoryRow
from analysis.run_folder import RunFolder


def begin(home: Path, claim: Claim, provenance: Mapping[str, object]) -> RunFolder:
    """Makes the folder of an attempt, unique even where two drivers ask at the same moment; raises OSError."""
    home.mkdir(parents=True, exist_ok=True)
    for number in itertools.count(1):
        folder = RunFolder.of_attempt(home, claim.attempt, number)
        try:
            folder.path.mkdir()
        except FileExistsError:
            continue
        # mkdir made this name ours, but an attempt of the same number may already be published under its other name.
        if any(other.is_dir() for other in folder.other_names()):
            folder.path.rmdir()
            continue
        about = {"attempt": claim.attempt, "owner": claim.owner, "provenance": dict(provenance)}
        folder.mark.write_text(json.dumps(about), encoding="utf8")
        return folder
    raise AssertionError


def provenance(folder: RunFolder) -> dict[str, object]:
    """Returns the provenance with which an attempt was trained, empty where its folder has none."""
    details = _mark(folder).get("provenance")
    return details if isinstance(details, dict) else {}


def owns(attempts: Iterable[HistoryRow | RunRow], folder: RunFolder) -> bool:
    """Tells whether a folder in a run's home is one of a ledger's `attempts`.

    Folders of older versions have no mark; they count where the ledger has had an attempt of that number.
    """
    mark = _mark(folder)
    if mark:
        return _is_of(attempts, mark)
    return not folder.end or any(folder.end == str(row.attempt) for row in attempts)


def is_others(attempts: Iterable[HistoryRow], folder: RunFolder) -> bool:
    mark = _mark(folder)
    return bool(mark) and not _is_of(attempts, mark)


def _is_of(attempts: Iterable[HistoryRow | RunRow], mark: Mapping[str, object]) -> bool:
    return any((mark.get("attempt"), mark.get("owner")) == (row.attempt, row.owner) for row in attempts)


def take_over(source: RunFolder, folder: RunFolder) -> None:
    """Gives an attempt's folder hard links to the checkpoints of a finished attempt; raises OSError."""
    for origin, target in ((source.best, folder.best), (source.last, folder.last)):
        target.mkdir()
        for file in origin.iterdir():
            if file.is_dir():  # of a program: modules of its model, checkpoints of its library
                shutil.copytree(file, target / file.name, copy_function=_link)
            elif not file.name.startswith("."):
                _link(file, target / file.name)
    if source.digests.is_file():
        _link(source.digests, folder.digests)


def _link(source: str | Path, to: str | Path) -> None:
    try:
        Path(to).hardlink_to(source)
    except FileNotFoundError:
        raise
    except OSError:  # a file system without links
        shutil.copyfile(source, to)


def _mark(folder: RunFolder) -> dict[str, object]:
    with contextlib.suppress(OSError, ValueError, RecursionError):
        mark = json.loads(folder.mark.read_text(encoding="utf8"))
        return mark if isinstance(mark, dict) else {}
    return {}
