"""The end of a run's log files. A ledger may name any folder: nothing outside the storage root is read."""

import os
from pathlib import Path

TAIL_BYTES = 6000
RANKS = 4
"""Log files of one run that are shown."""


def tails(folder: str | None, storage: Path) -> dict[str, str]:
    """File name -> its last lines, of the logs under a run's folder.

    Empty where there are none, and where they lie, links followed, outside `storage`.
    """
    if not folder:
        return {}
    root = storage.resolve()
    found = sorted(Path(folder, "logs").glob("rank*.log"))[:RANKS]
    return {path.name: tail(path.resolve()) for path in found if within(path, root)}


def within(path: Path, root: Path) -> bool:
    """Whether a path is a plain file under `root` once every link is followed."""
    real = path.resolve()
    return real.is_relative_to(root) and real.is_file()


def tail(path: Path, size: int = TAIL_BYTES) -> str:
    """The last whole lines of a text file, at most `size` bytes."""
    with path.open("rb") as stream:
        length = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, length - size))
        text = stream.read(size).decode("utf8", errors="replace")
    return text if length <= size else text.partition("\n")[2]
