"""Which files of runs may go: never what runs, what another ledger has, or a checkpoint that a score refers to."""

import contextlib
import functools
import re
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from analysis.ledger import Ledger, LedgerError, RunRow
from cluster.runtime.options import SweepOptions
from cluster.sweep.events import SweepEvent
from cse_train.fields import ConfigError

Kind = Literal["superseded", "last", "best"]
ENDED = ("done", "stopped")
"""Only runs that ended in order are touched: a failed or lost one goes on from its checkpoint."""
UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


@dataclass(frozen=True)
class Removable:
    """One folder that may go."""

    signature: str
    kind: Kind
    """`superseded`: an attempt that a finished one replaced; `last`: the state to go on from; `best`: the model."""
    folder: Path
    size: int
    """Bytes."""


@dataclass(frozen=True)
class Cleaning:
    """What would go, what all runs take, and what must stay although a quota wants more gone; sizes in bytes."""

    removable: tuple[Removable, ...]
    used: int
    over: int = 0

    @property
    def freed(self) -> int:
        return sum(item.size for item in self.removable)


def parse_size(text: str) -> int:
    """Bytes of `500MB` or `20GB` (powers of 1000); ConfigError for anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]B)", text.strip(), re.IGNORECASE)
    if not match:
        raise ConfigError([f"no size: disk_quota={text}; write a number and KB, MB, GB or TB, such as 20GB"])
    return int(float(match[1]) * UNITS[match[2].upper()])


def plan_cleaning(
    ledger: Ledger, storage: Path, keep_top: int | None, quota: int | None, referred: Collection[str] = ()
) -> Cleaning:
    """What may go from `storage`: superseded attempts; beyond the best `keep_top` of each sweep also checkpoints.

    `quota` in bytes stops as soon as the rest fits, worst runs first, and alone means `keep_top=1`. `referred`:
    signatures whose model stays besides those that have a score.
    """
    runs = {run.signature: run for run in ledger.runs()}
    homes = {name: home for name in runs if (home := _home(storage, name)) is not None}
    removable = [item for name, home in homes.items() for item in _superseded(runs[name], home)]
    if keep_top is not None or quota is not None:
        stay = _top(ledger, keep_top or 1)
        scored = {score.signature for score in ledger.scores(homes)} | set(referred)
        removable += _checkpoints(_worst_first(runs[name] for name in homes if name not in stay), homes, scored)
    used = size_of(storage / "runs")
    return _within(removable, used, quota)


def referred_models(ledger: Ledger) -> set[str]:
    """Signatures of the models that `cse best` has named."""
    return {look.signature for sweep in ledger.sweeps() for look in ledger.looks(sweep.id)}


def remove(ledger: Ledger, chosen: Iterable[Removable]) -> int:
    """Delete what still may go: a run that was claimed meanwhile keeps all. Returns the bytes freed."""
    freed = 0
    for item in chosen:
        row = ledger.run(item.signature)
        if row is not None and row.state in ENDED and _may_go(row, item):
            shutil.rmtree(item.folder, ignore_errors=True)
            freed += 0 if item.folder.exists() else item.size
    return freed


def size_of(folder: Path) -> int:
    """Bytes of all files below; links are not followed, and files that vanish meanwhile are not counted."""
    return sum(_size(path) for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return 0


def _home(storage: Path, signature: str) -> Path | None:
    """A run's folder; None where it is not there, or where a link or the name itself leads elsewhere."""
    root, home = (storage / "runs").resolve(), storage / "runs" / signature
    return home if home.is_dir() and home.resolve() == root / signature else None


def _in_home(run: RunRow, home: Path) -> bool:
    """Whether the ledger says that a run lies in a folder of its own home; `..` and links lead out of it."""
    folder = Path(run.folder or "/")
    return folder.parent == home and folder.resolve() == home.resolve() / folder.name


def _superseded(run: RunRow, home: Path) -> list[Removable]:
    """A finished run lies in the folder that its row names; its other attempts are of no more use."""
    if run.state != "done" or run.folder is None or not _in_home(run, home):
        return []
    attempts = (path for path in sorted(home.iterdir()) if path.is_dir() and not path.is_symlink())
    return [
        Removable(run.signature, "superseded", path, size_of(path))
        for path in attempts
        if path != Path(run.folder) and path.name.startswith(("attempt-", "unbooked-"))
    ]


def _checkpoints(runs: Iterable[RunRow], homes: Mapping[str, Path], scored: Collection[str]) -> list[Removable]:
    """First what is only needed to go on, then models, each of the worst run first."""
    kinds: tuple[Kind, Kind] = ("last", "best")
    ended = [run for run in runs if run.state in ENDED and _in_home(run, homes[run.signature])]
    folders = [(kind, run, Path(run.folder or "", kind)) for kind in kinds for run in ended]
    return [
        Removable(run.signature, kind, folder, size_of(folder))
        for kind, run, folder in folders
        if folder.is_dir() and not folder.is_symlink() and not (kind == "best" and run.signature in scored)
    ]


def _top(ledger: Ledger, count: int) -> set[str]:
    """The best `count` finished runs of every sweep, and every run that belongs to none."""
    stay = {run.signature for run in ledger.runs()}
    linked, top = set(), set()
    for sweep in ledger.sweeps():
        runs = ledger.runs(sweep=sweep.id)
        linked |= {run.signature for run in runs}
        ranked = reversed(list(_worst_first(run for run in runs if run.state == "done")))
        top |= {run.signature for run, _ in zip(ranked, range(count), strict=False)}
    return (stay - linked) | top


def _worst_first(runs: Iterable[RunRow]) -> Sequence[RunRow]:
    return sorted(runs, key=lambda run: float("-inf") if run.best is None else run.best)


def _within(removable: Sequence[Removable], used: int, quota: int | None) -> Cleaning:
    if quota is None:
        return Cleaning(tuple(removable), used)
    chosen, left = [], used
    for item in removable:
        if item.kind == "superseded" or left > quota:
            chosen.append(item)
            left -= item.size
    return Cleaning(tuple(chosen), used, max(0, left - quota))


def _may_go(row: RunRow, item: Removable) -> bool:
    return item.kind != "superseded" or (row.state == "done" and row.folder != str(item.folder))


PERIOD_S = 30.0
"""Least time between two looks at the disk: each visits every file of every run."""


class Pruner(AbstractContextManager["Pruner"]):
    """A listener of `run_sweep` and a context manager: prunes now and then, and once more when the sweep is over.

    Idle without `keep_top` and `disk_quota`. A ledger that does not answer is tried again at the next end of a run.
    """

    def __init__(self, ledger: str, options: SweepOptions, now: Callable[[], float] = time.monotonic) -> None:
        self._url, self._options, self._now = ledger, options, now
        self._wanted = options.keep_top is not None or options.disk_quota is not None
        self._next = now() + PERIOD_S
        self.freed = 0
        """Bytes so far."""
        self.over = 0
        """Bytes above the quota that must stay, as last seen."""

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self._prune()

    def __call__(self, event: SweepEvent) -> None:
        if event.kind in ENDED and self._now() >= self._next:
            self._prune()
            self._next = self._now() + PERIOD_S

    def _prune(self) -> None:
        if not self._wanted:
            return
        options = self._options
        opened = functools.partial(Ledger.open, self._url, create=False, storage=options.storage)
        with contextlib.suppress(LedgerError), contextlib.closing(opened()) as ledger:
            referred = referred_models(ledger)
            cleaning = plan_cleaning(ledger, options.storage, options.keep_top, options.disk_quota, referred)
            self.freed += remove(ledger, cleaning.removable)
            self.over = cleaning.over
