"""Installs a data set: downloads its files, checks them against the lock file, and lays them out in the data folder.

Files of other content are never overwritten, and an interrupted download resumes with the same command.
"""

import datetime
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cse.downloads import fetch, lock
from cse.downloads.catalog import PublicSet
from cse_train.fields import ConfigError

WORK = ".downloads"
"""Folder, below the data folder, of files that are being downloaded and laid out."""


@dataclass(frozen=True)
class InstalledSet:
    """Result of installing a data set: number of files and bytes in its place."""

    files: int
    bytes: int
    new: bool
    """True if the data set was downloaded now; False if it was there already."""


def state_of(data_set: PublicSet, to: Path, entries: Mapping[str, lock.LockEntry]) -> str:
    """Returns `there`, `incomplete` or `not fetched`, by the lock file and the files that exist."""
    entry = entries.get(data_set.name)
    if entry is None:
        return "not fetched"
    return "there" if all((to / path).is_file() for path in entry.files) else "incomplete"


def get(
    data_set: PublicSet, to: Path, *, mirror: str | None, update: bool, tell: Callable[[str], None]
) -> InstalledSet:
    """Installs a data set in `to`; `update` accepts another version than the lock file records.

    Raises ConfigError if a file there has other content, or if the publisher has another version, and
    `fetch.NotFetched` if no address returned a file.
    """
    entries = lock.read(to)
    entry_before = entries.get(data_set.name)
    if entry_before and not update and not _missing(entry_before, to):
        return InstalledSet(len(entry_before.files), _bytes(entry_before, to), new=False)
    work = to / WORK
    work.mkdir(parents=True, exist_ok=True)
    files = []
    for download in data_set.downloads:
        tell(f"fetching {(mirror or download.addresses[0])} ({data_set.megabytes} MB in all)")
        files.append(fetch.fetch(download, work, mirror))
    digests = {file.name: lock.sha256(file) for file in files}
    if entry_before and not update:
        _require_same(data_set, entry_before, digests, files)
    layout_folder = work / f"{data_set.name}.made"
    shutil.rmtree(layout_folder, ignore_errors=True)
    data_set.make(files, layout_folder)
    entry = lock.LockEntry(
        datetime.date.today().isoformat(), digests, _put(layout_folder, to, entry_before if update else None)
    )
    lock.write(to, {**entries, data_set.name: entry})
    shutil.rmtree(work)
    return InstalledSet(len(entry.files), _bytes(entry, to), new=True)


def _missing(entry: lock.LockEntry, to: Path) -> bool:
    """Returns True if a file is missing. Raises ConfigError for a file whose content differs from the lock file."""
    present = {path: to / path for path in entry.files if (to / path).is_file()}
    if changed := [path for path, file in present.items() if lock.sha256(file) != entry.files[path]]:
        raise ConfigError(
            [f"changed file: {to / path} is not what was fetched on {entry.on}; move it away" for path in changed]
        )
    return len(present) < len(entry.files)


def _require_same(data_set: PublicSet, before: lock.LockEntry, digests: Mapping[str, str], files: list[Path]) -> None:
    changed = [name for name, digest in digests.items() if before.downloads.get(name) != digest]
    if changed:
        for file in files:
            file.unlink()
        changes = ", ".join(f"{name} has SHA-256 {digests[name][:12]}" for name in changed)
        raise ConfigError(
            [
                f"another version: {data_set.name}, {changes}, {lock.LOCK_FILE} has that of {before.on}; "
                "runs on the other text would not be comparable; --update takes the new one"
            ]
        )


def _put(layout_folder: Path, to: Path, replaced: lock.LockEntry | None) -> dict[str, str]:
    """Moves every file of `layout_folder` to its place, and returns path -> SHA-256; files that `replaced` lists may be
    overwritten."""
    digests = {
        str(file.relative_to(layout_folder)): lock.sha256(file)
        for file in sorted(layout_folder.rglob("*"))
        if file.is_file()
    }
    recorded = replaced.files if replaced else {}
    problems = [
        f"file exists: {to / path} has another content; move it away, or give another --to"
        for path, digest in digests.items()
        if (to / path).exists() and lock.sha256(to / path) not in (digest, recorded.get(path))
    ]
    if problems:
        raise ConfigError(problems)
    for path in digests:
        (to / path).parent.mkdir(parents=True, exist_ok=True)
        (layout_folder / path).replace(to / path)
    return digests


def _bytes(entry: lock.LockEntry, to: Path) -> int:
    return sum((to / path).stat().st_size for path in entry.files)
