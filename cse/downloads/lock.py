"""What was fetched into a folder: addresses' checksums, and those of the files that were made of them."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from cse_train.files import replace_file
from cse_train.reading import reading

LOCK_FILE = "data.lock.json"


@dataclass(frozen=True)
class Fetched:
    """One data set as it came."""

    on: str
    """The day, ISO."""
    downloads: Mapping[str, str]
    """File's name -> SHA-256 of what was fetched."""
    files: Mapping[str, str]
    """Path below the folder -> SHA-256 of what was made."""


def read(folder: Path) -> dict[str, Fetched]:
    """Data set's name -> what was fetched; raises ConfigError for a file that is no lock file."""
    file = folder / LOCK_FILE
    if not file.is_file():
        return {}
    with reading("damaged lock file", f"file={file}", "repair it, or move it away to accept what is published now"):
        described = json.loads(file.read_text(encoding="utf8"))
        return {name: Fetched(e["on"], dict(e["downloads"]), dict(e["files"])) for name, e in described.items()}


def write(folder: Path, fetched: Mapping[str, Fetched]) -> None:
    """Write all entries, by name."""
    text = json.dumps({name: asdict(fetched[name]) for name in sorted(fetched)}, indent=1)
    replace_file(folder / LOCK_FILE, lambda path: path.write_text(f"{text}\n", encoding="utf8"))


def sha256(file: Path) -> str:
    """The SHA-256 of a file, hexadecimal."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
