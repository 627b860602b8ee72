"""Data of the live page as plain values for JSON."""

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from analysis.ledger import queries
from analysis.ledger.database import transaction
from analysis.progress.follower import Follower
from analysis.progress.pages import Listing, Wanted, figure, page
from analysis.progress.plain import short
from analysis.progress.rows import ProgressRow
from analysis.progress.sweeps import SweepProgress, run_folder
from analysis.run_folder import RunFolder
from analysis.run_state import RunState
from analysis.statistics.importance import importance
from analysis.tables.labels import short as short_axis

RUNS_A_VALUE = 2
"""Least number of ended runs for each value of an axis, for the importance of axes to be shown."""
FAILED_NAMED = 50
"""Maximum number of failed runs named for each reason."""


def state(follower: Follower, sweep: str | None, storage: Path) -> dict[str, object]:
    """Returns every sweep in short, and one with curves and failures: the named one, else the first.

    Raises LedgerError if the ledger cannot be read.
    """
    progress = follower.overview()
    chosen = sweep or (progress.sweeps[0].id if progress.sweeps else None)
    detail = follower.detail(chosen) if chosen else None
    return {
        "now": progress.now,
        "sweeps": [short(sweep_row) for sweep_row in progress.sweeps],
        "sweep": None
        if detail is None
        else {
            **short(detail.progress),
            "curves": [vars(curve) for curve in detail.curves],
            "failures": failures(detail.listing),
            "mirror": _mirror(detail.progress, storage),
        },
    }


def failures(listing: Listing) -> list[dict[str, object]]:
    """Returns failed runs grouped by reason, the most frequent first; at most FAILED_NAMED runs of each are named."""
    by_reason: dict[str, list[ProgressRow]] = {}
    for row in listing.rows:
        if row.state == RunState.FAILED:
            by_reason.setdefault(row.reason or "no reason is recorded", []).append(row)
    return [
        {
            "reason": reason,
            "count": len(rows),
            "runs": [
                {"signature": row.signature, "label": listing.names[row.signature]} for row in rows[:FAILED_NAMED]
            ],
        }
        for reason, rows in sorted(by_reason.items(), key=lambda item: -len(item[1]))
    ]


def runs(follower: Follower, sweep: str, query: Mapping[str, str]) -> dict[str, object]:
    """Returns a page of a sweep's runs, sorted and filtered by `query`.

    Raises LedgerError if the ledger cannot be read, and FilterError for a column that the sweep does not have.
    """
    listing = follower.listing(sweep)
    start = query.get("from", "0")
    selection = Wanted(
        sort=query.get("sort", ""),
        down=query.get("down") == "1",
        words=query.get("words", ""),
        folded=query.get("fold") == "1",
        offset=int(start) if start.isdecimal() and len(start) < 10 else 0,
    )
    return page(listing, selection) if listing else {}


def cells(follower: Follower, sweep: str) -> dict[str, object]:
    """Returns a sweep's axes, the score of each cell, and each axis's importance. Raises LedgerError."""
    listing = follower.listing(sweep)
    return {**figure(listing), "importance": shares(listing)} if listing else {}


def shares(listing: Listing) -> list[dict[str, object]]:
    """Returns the share, 0 to 1, of the scores' variance that each axis explains, largest first.

    `floor` is the share that an axis would reach by the seeds' noise alone.

    Empty if there are fewer than `RUNS_A_VALUE` ended runs for each value of an axis.
    """
    ended = [row for row in listing.rows if row.state == RunState.DONE and row.best is not None]
    keys = [row.cell for row in ended]
    axes_by_grouping: dict[tuple[int, ...], list[str]] = {}
    for axis in listing.axes:  # of axes that vary together none explains more than the others
        first: dict[object, int] = {}
        places = tuple(first.setdefault(key.get(axis), place) for place, key in enumerate(keys))
        axes_by_grouping.setdefault(places, []).append(axis)
    names = {axes[0]: " with ".join(map(short_axis, axes)) for axes in axes_by_grouping.values()}
    parts = importance(keys, [row.best or 0.0 for row in ended], list(names))
    if parts is None or parts.runs < RUNS_A_VALUE * sum(axis.levels for axis in parts.axes):
        return []
    ranked = sorted(parts.axes, key=lambda axis: -axis.share)
    return [{"name": names[axis.axis], "share": axis.share, "floor": axis.floor} for axis in ranked]


def one_run(engine: Engine, signature: str) -> dict[str, object]:
    """Returns settings, curve and state of one run; empty for an unknown signature. Raises LedgerError."""
    with transaction(engine) as connection:
        rows = queries.runs(connection, signatures=[signature])
        points = queries.curves(connection, [signature]).get(signature, [])
    if not rows:
        return {}
    run = rows[0]
    dev = run.config.get("train.dev")
    return {
        "signature": signature,
        "settings": {"method": run.method, "seed": run.seed, **run.config},
        "dev": dev,
        "points": [
            {
                "examples": point.examples,
                "dev": finite(point.metrics.get(str(dev))),
                "loss": finite(point.metrics.get("loss")),
            }
            for point in points
        ],
        **{name: getattr(run, name) for name in ("state", "reason", "examples", "best", "best_examples", "seconds")},
    }


def finite(value: Any) -> float | None:
    """Returns the number as a float; None for NaN, infinity and other types, which JSON lacks."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _mirror(sweep: SweepProgress, storage: Path) -> str | None:
    """Returns the address of the Optuna database that a search keeps beside its runs; None without one."""
    file = storage / "optuna.db"
    return f"sqlite:///{file}" if sweep.search and file.is_file() else None


def log(engine: Engine, signature: str, storage: Path) -> Mapping[str, object]:
    """Returns the ends of a run's log files, or a note on why there are none to show."""
    folder = run_folder(engine, signature)
    files = tails(folder, storage)
    if files or folder is None:
        return {"files": files, "note": "" if files else "This run has no folder."}
    return {"files": {}, "note": f"No log under {storage} for this run; its folder is {folder}."}


TAIL_BYTES = 6000
RANKS = 4
"""Maximum number of log files shown for one run."""


def tails(folder: str | None, storage: Path) -> dict[str, str]:
    """Returns log file name -> its last lines, for the logs in a run's folder.

    Empty where there are none, and where they lie outside `storage` once links are followed.
    """
    if not folder:
        return {}
    root = storage.resolve()
    paths = RunFolder(Path(folder)).written_logs()[:RANKS]
    return {path.name: tail(path.resolve()) for path in paths if is_within(path, root)}


def is_within(path: Path, root: Path) -> bool:
    """Returns True if a path is a plain file under `root` once every link is followed."""
    try:
        real = path.resolve()
    except (OSError, RuntimeError):  # links in a circle
        return False
    return real.is_relative_to(root) and real.is_file()


def tail(path: Path) -> str:
    """Returns the last complete lines of a text file, TAIL_BYTES at most."""
    with path.open("rb") as stream:
        length = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, length - TAIL_BYTES))
        text = stream.read(TAIL_BYTES).decode("utf8", errors="replace")
    return text if length <= TAIL_BYTES else text.partition("\n")[2]
