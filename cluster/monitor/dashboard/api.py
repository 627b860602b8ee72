"""The data of the page, plain for JSON."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from analysis.progress.follower import Follower
from analysis.progress.sweeps import RunProgress, SweepDetail, SweepProgress, run_folder


def state(follower: Follower, sweep: str | None, storage: Path) -> dict[str, Any]:
    """Every sweep in short, and one in full: the named one, else the first. LedgerError."""
    progress = follower.overview()
    chosen = sweep or (progress.sweeps[0].id if progress.sweeps else None)
    full = follower.detail(chosen) if chosen else None
    return {
        "now": progress.now,
        "sweeps": [short(sweep_row) for sweep_row in progress.sweeps],
        "sweep": None if full is None else {**whole(full), "mirror": _mirror(full.progress, storage)},
    }


def _mirror(sweep: SweepProgress, storage: Path) -> str | None:
    """The Optuna database that a search keeps beside its runs; None for a grid, and where there is none."""
    file = storage / "optuna.db"
    return f"sqlite:///{file}" if sweep.search and file.is_file() else None


def short(sweep: SweepProgress) -> dict[str, Any]:
    """A sweep's line; also what `cse status --format json` prints."""
    plain = {name: value for name, value in vars(sweep).items() if name not in ("space", "search")}
    return plain | {"ended": sweep.ended}


def whole(sweep: SweepDetail) -> dict[str, Any]:
    """A sweep with its runs and curves."""
    return {
        **short(sweep.progress),
        "list": [run(progress) for progress in sweep.runs],
        "unlisted": sweep.unlisted,
        "curves": [vars(curve) for curve in sweep.curves],
    }


def run(progress: RunProgress) -> dict[str, Any]:
    names = ("signature", "state", "share", "examples", "total", "best", "reason")
    return {"label": progress.label, **{name: getattr(progress.row, name) for name in names}}


def log(engine: Engine, signature: str, storage: Path) -> Mapping[str, Any]:
    """The end of a run's logs, or why there is none to show."""
    folder = run_folder(engine, signature)
    files = tails(folder, storage)
    if files or folder is None:
        return {"files": files, "note": "" if files else "This run has no folder."}
    return {"files": {}, "note": f"No log under {storage} for this run; its folder is {folder}."}


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
    paths = sorted(Path(folder, "logs").glob("rank*.log"))[:RANKS]
    return {path.name: tail(path.resolve()) for path in paths if within(path, root)}


def within(path: Path, root: Path) -> bool:
    """Whether a path is a plain file under `root` once every link is followed."""
    try:
        real = path.resolve()
    except (OSError, RuntimeError):  # links in a circle
        return False
    return real.is_relative_to(root) and real.is_file()


def tail(path: Path, size: int = TAIL_BYTES) -> str:
    """The last whole lines of a text file, at most `size` bytes."""
    with path.open("rb") as stream:
        length = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, length - size))
        text = stream.read(size).decode("utf8", errors="replace")
    return text if length <= size else text.partition("\n")[2]
