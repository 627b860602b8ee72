"""Measures the disk use of the folders of runs; a finished run is measured once."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.ledger import RunRow
from analysis.ledger.rows import HistoryRow
from analysis.run_folder import Checkpoint, RunFolder, home_of, runs_folder
from analysis.run_state import RunState
from cluster.sweep import run_folders

UNKNOWN_FOLDER_SECONDS = 600.0
"""Seconds until the folder of a run that the ledger does not know is measured again."""


@dataclass(frozen=True)
class RunSizes:
    """Sizes in bytes of one run's folder and of its parts that may be deleted."""

    total: int
    attempts: tuple[tuple[Path, int], ...]
    """(folder, bytes) of this ledger's superseded attempts at a finished run."""
    checkpoints: tuple[tuple[Checkpoint, Path, int], ...]
    """(kind, folder, bytes) of the checkpoints `last` and `best`, as far as they exist.

    Empty where the run's folder lies outside its home or belongs to another ledger.
    """


History = Callable[[str], Sequence[HistoryRow]]
"""Function from a signature to the ledger's attempts at the run, called where the files do not name their owner."""


class DiskUse:
    """Disk use of the runs in one storage; not thread-safe."""

    def __init__(self, storage: Path) -> None:
        self._storage = storage
        self._root = runs_folder(storage).resolve()
        self._holdings: dict[str, tuple[object, RunSizes | None]] = {}
        self._strangers: dict[str, tuple[float, int]] = {}

    def of(self, run: RunRow, history: History) -> RunSizes | None:
        """Returns a run's sizes; None where it has no folder here, or where a link or its name leads elsewhere."""
        state = (run.state, run.attempt, run.updated, run.folder)
        before = self._holdings.get(run.signature)
        if before is None or before[0] != state or not run.state.has_result:
            before = self._holdings[run.signature] = state, self._measure(run, history)
        return before[1]

    def forget(self, signature: str) -> None:
        """Drops the remembered sizes of a run whose files have changed."""
        self._holdings.pop(signature, None)

    def used(self) -> int:
        """Returns the bytes of all runs measured by `of`, and of every other folder among the runs."""
        names = {entry.name: entry for entry in os.scandir(self._root)} if self._root.is_dir() else {}
        return sum(self._size(name, Path(entry.path)) for name, entry in names.items())

    def _size(self, name: str, folder: Path) -> int:
        holding = self._holdings.get(name, (None, None))[1]
        if holding is not None:
            return holding.total
        until, size = self._strangers.get(name, (0.0, 0))
        if time.monotonic() >= until:
            size = size_of(folder)
            self._strangers[name] = time.monotonic() + UNKNOWN_FOLDER_SECONDS, size
        return size

    def _measure(self, run: RunRow, history: History) -> RunSizes | None:
        home = home_of(self._storage, run.signature)
        if not home.is_dir() or home.resolve() != self._root / run.signature:
            return None
        folder = RunFolder(Path(run.folder or "/"))
        inside = folder.path.parent == home and folder.path.resolve() == home.resolve() / folder.path.name
        has_ended = inside and run.state.has_result and _is_own(run, history, folder)
        others = RunFolder.in_home(home) if has_ended and run.state == RunState.DONE else []
        superseded = [other.path for other in others if other != folder and _is_own(run, history, other)]
        return RunSizes(
            size_of(home),
            tuple((path, size_of(path)) for path in superseded),
            tuple((kind, path, size_of(path)) for kind, path in folder.checkpoints()) if has_ended else (),
        )


def _is_own(run: RunRow, history: History, folder: RunFolder) -> bool:
    return run_folders.owns([run], folder) or run_folders.owns(history(run.signature), folder)


def size_of(folder: Path) -> int:
    """Returns the bytes of all files below `folder`; links are not followed, and files that vanish meanwhile count 0.

    A file with several hard links, which ledgers share, counts its size divided by the number of links.
    """
    return sum(_size(path) for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())


def _size(path: Path) -> int:
    try:
        about = path.lstat()
        return about.st_size // about.st_nlink
    except FileNotFoundError:
        return 0
