"""Lock file of a data folder: SHA-256 of downloaded files, and of the files that were made from them."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from cse_train.files import replace_file
from cse_train.reading import reading

LOCK_FILE = "data.lock.json"


@dataclass(frozen=True)
class LockEntry:
    """Lock-file entry of one data set."""

    on: str
    """Day of the download, as an ISO date."""
    downloads: Mapping[str, str]
    """Name of a downloaded file -> its SHA-256."""
    files: Mapping[str, str]
    """Path of an installed file, below the data folder -> its SHA-256."""


def read(folder: Path) -> dict[str, LockEntry]:
    """Returns data set -> its entry. Raises ConfigError for a damaged lock file."""
    file = folder / LOCK_FILE
    if not file.is_file():
        return {}
    with reading("damaged lock file", f"file={file}", "repair it, or move it away to accept what is published now"):
        described = json.loads(file.read_text(encoding="utf8"))
        return {name: LockEntry(e["on"], dict(e["downloads"]), dict(e["files"])) for name, e in described.items()}


def write(folder: Path, fetched: Mapping[str, LockEntry]) -> None:
    """Writes all entries to the lock file, sorted by name."""
    text = json.dumps({name: asdict(fetched[name]) for name in sorted(fetched)}, indent=1)
    replace_file(folder / LOCK_FILE, lambda path: path.write_text(f"{text}\n", encoding="utf8"))


def sha256(file: Path) -> str:
    """Returns the SHA-256 of a file as hexadecimal digits."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
