"""Get a data set: fetch its files, compare them with the lock file, lay them out, and put them in their places.

Nothing that lies there with another content is overwritten, and what was interrupted goes on with the same command.
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
"""Below the folder of data: what is being fetched and laid out."""


@dataclass(frozen=True)
class Got:
    """How a data set came to be there."""

    files: int
    bytes: int
    new: bool
    """Fetched now, and not there already."""


def state_of(data_set: PublicSet, to: Path, entries: Mapping[str, lock.Fetched]) -> str:
    """`there`, `incomplete` or `not fetched`, by the lock file and which of its files exist."""
    entry = entries.get(data_set.name)
    if entry is None:
        return "not fetched"
    return "there" if all((to / path).is_file() for path in entry.files) else "incomplete"


def get(data_set: PublicSet, to: Path, *, mirror: str | None, update: bool, tell: Callable[[str], None]) -> Got:
    """Have a data set in `to`; `update` takes another version than the lock file has.

    Raises ConfigError where a file there has another content or the publisher's is another version, and
    `fetch.NotFetched` where no address gave a file.
    """
    entries = lock.read(to)
    before = entries.get(data_set.name)
    if before and not update and not _missing(before, to):
        return Got(len(before.files), _bytes(before, to), new=False)
    work = to / WORK
    work.mkdir(parents=True, exist_ok=True)
    files = []
    for download in data_set.downloads:
        tell(f"fetching {(mirror or download.addresses[0])} ({data_set.megabytes} MB in all)")
        files.append(fetch.fetch(download, work, mirror))
    came = {file.name: lock.sha256(file) for file in files}
    if before and not update:
        _require_same(data_set, before, came, files)
    made = work / f"{data_set.name}.made"
    shutil.rmtree(made, ignore_errors=True)
    data_set.make(files, made)
    entry = lock.Fetched(datetime.date.today().isoformat(), came, _put(made, to, before if update else None))
    lock.write(to, {**entries, data_set.name: entry})
    shutil.rmtree(work)
    return Got(len(entry.files), _bytes(entry, to), new=True)


def _missing(entry: lock.Fetched, to: Path) -> bool:
    """Whether a file is gone; ConfigError where one has another content than was written."""
    there = {path: to / path for path in entry.files if (to / path).is_file()}
    if changed := [path for path, file in there.items() if lock.sha256(file) != entry.files[path]]:
        raise ConfigError(
            [f"changed file: {to / path} is not what was fetched on {entry.on}; move it away" for path in changed]
        )
    return len(there) < len(entry.files)


def _require_same(data_set: PublicSet, before: lock.Fetched, came: Mapping[str, str], files: list[Path]) -> None:
    others = [name for name, digest in came.items() if before.downloads.get(name) != digest]
    if others:
        for file in files:
            file.unlink()
        what = ", ".join(f"{name} has SHA-256 {came[name][:12]}" for name in others)
        raise ConfigError(
            [
                f"another version: {data_set.name}, {what}, {lock.LOCK_FILE} has that of {before.on}; "
                "runs on the other text would not be comparable; --update takes the new one"
            ]
        )


def _put(made: Path, to: Path, replaced: lock.Fetched | None) -> dict[str, str]:
    """Move every file of `made` to its place; path -> SHA-256. What `replaced` recorded may be overwritten."""
    digests = {str(file.relative_to(made)): lock.sha256(file) for file in sorted(made.rglob("*")) if file.is_file()}
    ours = replaced.files if replaced else {}
    problems = [
        f"file exists: {to / path} has another content; move it away, or give another --to"
        for path, digest in digests.items()
        if (to / path).exists() and lock.sha256(to / path) not in (digest, ours.get(path))
    ]
    if problems:
        raise ConfigError(problems)
    for path in digests:
        (to / path).parent.mkdir(parents=True, exist_ok=True)
        (made / path).replace(to / path)
    return digests


def _bytes(entry: lock.Fetched, to: Path) -> int:
    return sum((to / path).stat().st_size for path in entry.files)
