"""Deletes files of runs that are no longer needed.

Never deleted are files of unfinished runs, other ledgers' files, and checkpoints with scores. Only runs that ended in
order are touched: a failed or lost one resumes from its checkpoint.
"""

import contextlib
import functools
import os
import re
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from analysis.ledger import Ledger, LedgerError, RunRow
from analysis.ledger.rows import HistoryRow
from analysis.run_folder import Checkpoint, RunFolder, home_of, runs_folder
from analysis.run_state import RunState
from cluster.runtime.options import SweepOptions, login_name
from cluster.sweep import run_folders
from cluster.sweep.events import EventKind, SweepEvent
from cse_train.fields import ConfigError

RETENTION_PERIOD_SECONDS = 30.0
"""Minimum seconds between two prunings by a listener."""
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
    """Returns the bytes of all files below a folder; a file with several links, of several ledgers, counts in part."""
    return sum(_size(path) for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())


def _size(path: Path) -> int:
    try:
        about = path.lstat()
        return about.st_size // about.st_nlink
    except FileNotFoundError:
        return 0


Kind = Literal["superseded"] | Checkpoint
SIZE_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


@dataclass(frozen=True)
class Removable:
    """A folder that may be deleted, with its run, kind and size."""

    signature: str
    kind: Kind
    """Kind of the folder: `superseded` attempt of a finished run, `last` checkpoint to resume from, or `best` model."""
    folder: Path
    size: int
    user: str = ""


@dataclass(frozen=True)
class Cleaning:
    """Folders to delete, bytes that all runs take, and bytes over the quota that must stay."""

    removable: tuple[Removable, ...]
    used: int
    over: int = 0

    @property
    def freed(self) -> int:
        return sum(item.size for item in self.removable)


def parse_size(text: str) -> int:
    """Parses `500MB` or `20GB` into bytes (powers of 1000); raises ConfigError for anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]B)", text.strip(), re.IGNORECASE)
    if not match:
        raise ConfigError([f"no size: disk_quota={text}; write a number and KB, MB, GB or TB, such as 20GB"])
    return int(float(match[1]) * SIZE_UNITS[match[2].upper()])


def plan_cleaning(
    ledger: Ledger,
    storage: Path,
    keep_top: int | None,
    quota: int | None,
    referred: Collection[str] = (),
    disk: DiskUse | None = None,
    user: str | None = None,
) -> Cleaning:
    """Plans what to delete from `storage`: superseded attempts, and checkpoints beyond the best `keep_top` per sweep.

    `quota` in bytes stops as soon as the rest fits, worst runs first, and alone means `keep_top=1`. `referred`:
    signatures whose model stays besides those that have a score. `disk` remembers earlier measurements. With `user`,
    other users' runs are left alone.
    """
    disk = disk or DiskUse(storage)
    runs = {run.signature: run for run in ledger.runs()}
    holdings = {name: holding for name, run in runs.items() if (holding := disk.of(run, ledger.history)) is not None}
    used = disk.used()
    if user is not None:
        holdings = {name: holding for name, holding in holdings.items() if runs[name].user in ("", user)}
    removable = [
        Removable(name, "superseded", path, size, runs[name].user)
        for name, holding in holdings.items()
        for path, size in holding.attempts
    ]
    if keep_top is not None or quota is not None:
        stay = _top(ledger, runs, keep_top or 1)
        scored = {score.signature for score in ledger.scores(holdings)} | set(referred)
        removable += _checkpoints(_worst_first(runs[name] for name in holdings if name not in stay), holdings, scored)
    if quota is None:
        return Cleaning(tuple(removable), used)
    chosen, left = [], used
    for item in removable:
        if item.kind == "superseded" or left > quota:
            chosen.append(item)
            left -= item.size
    return Cleaning(tuple(chosen), used, max(0, left - quota))


def list_referred(ledger: Ledger) -> set[str]:
    """Returns the signatures of models that `cse best` has named."""
    return {look.signature for sweep in ledger.sweeps() for look in ledger.looks(sweep.id)}


def remove(ledger: Ledger, chosen: Iterable[Removable]) -> int:
    """Deletes the chosen folders whose runs have not been claimed meanwhile; returns the bytes freed."""
    freed = 0
    for item in chosen:
        row = ledger.run(item.signature)
        if row is None or not row.state.has_result or not item.folder.is_dir():
            continue
        if item.kind == "superseded" and (row.state != RunState.DONE or row.folder == str(item.folder)):
            continue  # the attempt counts again
        if item.kind == "best":
            RunFolder(item.folder.parent).digests.unlink(missing_ok=True)  # else it would count as lost
        shutil.rmtree(item.folder, ignore_errors=True)
        freed += 0 if item.folder.exists() else item.size
    return freed


def _checkpoints(
    runs: Sequence[RunRow], holdings: Mapping[str, RunSizes], scored: Collection[str]
) -> Iterable[Removable]:
    """Yields checkpoints that may go, worst run first: all `last` checkpoints before all `best` models."""
    for checkpoint in get_args(Checkpoint):
        for run in runs:
            for kind, folder, size in holdings[run.signature].checkpoints:
                if kind == checkpoint and not (kind == "best" and run.signature in scored):
                    yield Removable(run.signature, checkpoint, folder, size, run.user)


def _top(ledger: Ledger, runs: Mapping[str, RunRow], count: int) -> set[str]:
    """Returns the best `count` finished runs of every sweep, and every run that belongs to no sweep."""
    linked, top = set[str](), set[str]()
    for sweep in ledger.sweeps():
        names = dict.fromkeys(name for name in ledger.signatures(sweep.id) if name in runs)
        linked |= names.keys()
        ranked = reversed(_worst_first(runs[name] for name in names if runs[name].state == RunState.DONE))
        top |= {run.signature for run, _ in zip(ranked, range(count), strict=False)}
    return (runs.keys() - linked) | top


def _worst_first(runs: Iterable[RunRow]) -> Sequence[RunRow]:
    return sorted(runs, key=lambda run: float("-inf") if run.best is None else run.best)


class Pruner(AbstractContextManager["Pruner"]):
    """Listener of `run_sweep` and context manager that prunes now and then, and once more when the sweep is over.

    Prunes in a thread, so that no slot waits for the disk, and leaves other users' runs alone. Does nothing without
    `keep_top` and `disk_quota`. After an unreachable ledger or a disk error it tries again at the next end of a run.
    """

    def __init__(self, ledger: str, options: SweepOptions, now: Callable[[], float] = time.monotonic) -> None:
        self._url, self._options, self._now = ledger, options, now
        self._enabled = options.keep_top is not None or options.disk_quota is not None
        self._next = now() + RETENTION_PERIOD_SECONDS
        self._disk = DiskUse(options.storage)
        self._thread = threading.Thread()
        self.freed = 0
        """Bytes of checkpoints and superseded attempts deleted so far."""
        self.over = 0
        """Bytes of files above the quota that must stay, as of the last pruning."""

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self.wait()
        if kind is None:
            self._prune()

    def __call__(self, event: SweepEvent) -> None:
        if (
            self._enabled
            and event.kind in (EventKind.DONE, EventKind.STOPPED)
            and self._now() >= self._next
            and not self._thread.is_alive()
        ):
            self._next = self._now() + RETENTION_PERIOD_SECONDS
            self._thread = threading.Thread(target=self._prune, name="pruner", daemon=True)
            self._thread.start()

    def wait(self) -> None:
        if self._thread.is_alive():
            self._thread.join()

    def _prune(self) -> None:
        if not self._enabled:
            return
        options = self._options
        opened = functools.partial(Ledger.open, self._url, create=False, storage=options.storage)
        with contextlib.suppress(LedgerError, OSError), contextlib.closing(opened()) as ledger:
            referred = list_referred(ledger)
            cleaning = plan_cleaning(
                ledger, options.storage, options.keep_top, options.disk_quota, referred, self._disk, options.user
            )
            self.over = cleaning.over
            for item in cleaning.removable:
                self.freed += remove(ledger, [item])
                self._disk.forget(item.signature)


def require_own(users: Iterable[str], user: str | None) -> None:
    """Raises ConfigError if things of another user would be deleted while --user named nobody.

    `users`: owner of each thing; "" where unknown, as for runs of older versions.
    """
    login = login_name()
    others = Counter(user for user in users if user not in ("", login))
    if others and user is None:
        owners = ", ".join(f"user={name} has {count}" for name, count in others.items())
        advice = f"give --user {login} for yours alone, or --user {next(iter(others))} for theirs"
        raise ConfigError([f"another's runs: {owners} of what would go; {advice}"])
