"""Installs a data set: downloads its files, checks them against the lock file, and lays them out in the data folder.

The lock file of a data folder holds the SHA-256 of downloaded files, and of the files that were made from them. Files
of other content are never overwritten, and an interrupted download resumes with the same command.
"""

import datetime
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from cse.downloads import fetch
from cse.downloads.catalog import PublicSet
from cse_train.fields import ConfigError
from cse_train.files import hash_file, replace_text
from cse_train.reading import reading

LOCK_FILE = "data.lock.json"
WORK = ".downloads"
"""Folder, below the data folder, of files that are being downloaded and laid out."""


@dataclass(frozen=True)
class LockEntry:
    """Lock-file entry of one data set."""

    on: str
    """Day of the download, as an ISO date."""
    downloads: Mapping[str, str]
    """Name of a downloaded file -> its SHA-256."""
    files: Mapping[str, str]
    """Path of an installed file, below the data folder -> its SHA-256."""


def read_lock(folder: Path) -> dict[str, LockEntry]:
    """Returns data set -> its entry. Raises ConfigError for a damaged lock file."""
    file = folder / LOCK_FILE
    if not file.is_file():
        return {}
    with reading("damaged lock file", f"file={file}", "repair it, or move it away to accept what is published now"):
        described = json.loads(file.read_text(encoding="utf8"))
        return {name: LockEntry(e["on"], dict(e["downloads"]), dict(e["files"])) for name, e in described.items()}


def get(
    data_set: PublicSet, to: Path, *, mirror: str | None, update: bool, tell: Callable[[str], None]
) -> tuple[LockEntry, bool]:
    """Installs a data set in `to`; `update` accepts another version than the lock file records.

    Returns its entry, and False if it was there already. Raises ConfigError if a file there has other content, or if
    the publisher has another version, and `fetch.NotFetched` if no address returned a file.
    """
    entries = read_lock(to)
    entry_before = entries.get(data_set.name)
    if entry_before and not update and _is_complete(entry_before, to):
        return entry_before, False
    work = to / WORK
    work.mkdir(parents=True, exist_ok=True)
    files = []
    for download in data_set.downloads:
        tell(f"fetching {(mirror or download.addresses[0])} ({data_set.megabytes} MB in all)")
        files.append(fetch.fetch(download, work, mirror))
    digests = {file.name: hash_file(file) for file in files}
    if entry_before and not update:
        _require_same(data_set, entry_before, digests, files)
    layout_folder = work / f"{data_set.name}.made"
    shutil.rmtree(layout_folder, ignore_errors=True)
    data_set.make(files, layout_folder)
    installed = _put(layout_folder, to, entry_before if update else None)
    entry = LockEntry(datetime.date.today().isoformat(), digests, installed)
    entries[data_set.name] = entry
    text = json.dumps({name: asdict(entries[name]) for name in sorted(entries)}, indent=1)
    replace_text(to / LOCK_FILE, f"{text}\n")
    shutil.rmtree(work)
    return entry, True


def _is_complete(entry: LockEntry, to: Path) -> bool:
    """Returns False if a file is missing. Raises ConfigError for a file whose content differs from the lock file."""
    present = {path: to / path for path in entry.files if (to / path).is_file()}
    if changed := [path for path, file in present.items() if hash_file(file) != entry.files[path]]:
        raise ConfigError(
            [f"changed file: {to / path} is not what was fetched on {entry.on}; move it away" for path in changed]
        )
    return len(present) == len(entry.files)


def _require_same(data_set: PublicSet, before: LockEntry, digests: Mapping[str, str], files: list[Path]) -> None:
    changed = [name for name, digest in digests.items() if before.downloads.get(name) != digest]
    if changed:
        for file in files:
            file.unlink()
        changes = ", ".join(f"{name} has SHA-256 {digests[name][:12]}" for name in changed)
        raise ConfigError(
            [
                f"another version: {data_set.name}, {changes}, {LOCK_FILE} has that of {before.on}; "
                "runs on the other text would not be comparable; --update takes the new one"
            ]
        )


def _put(layout_folder: Path, to: Path, replaced: LockEntry | None) -> dict[str, str]:
    """Moves every file of `layout_folder` to its place, and returns path -> SHA-256; files that `replaced` lists may be
    overwritten."""
    digests = {
        str(file.relative_to(layout_folder)): hash_file(file)
        for file in sorted(layout_folder.rglob("*"))
        if file.is_file()
    }
    recorded = replaced.files if replaced else {}
    problems = [
        f"file exists: {to / path} has another content; move it away, or give another --to"
        for path, digest in digests.items()
        if (to / path).exists() and hash_file(to / path) not in (digest, recorded.get(path))
    ]
    if problems:
        raise ConfigError(problems)
    for path in digests:
        (to / path).parent.mkdir(parents=True, exist_ok=True)
        (layout_folder / path).replace(to / path)
    return digests
