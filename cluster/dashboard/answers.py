"""What the page asks for, as plain data for JSON."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from analysis.sweep_progress import RunProgress, SweepDetail, SweepProgress, detail, overview, run_folder
from cluster.dashboard.log_tail import tails


def state(engine: Engine, sweep: str | None, storage: Path) -> dict[str, Any]:
    """Every sweep in short, and one in full: the named one, else the first. LedgerError."""
    found = overview(engine)
    chosen = sweep or (found.sweeps[0].id if found.sweeps else None)
    full = detail(engine, chosen) if chosen else None
    return {
        "now": found.now,
        "sweeps": [short(one) for one in found.sweeps],
        "sweep": None if full is None else {**whole(full), "mirror": _mirror(full.progress, storage)},
    }


def _mirror(sweep: SweepProgress, storage: Path) -> str | None:
    """The Optuna database that a search keeps beside its runs; None for a grid, and where there is none."""
    file = storage / "optuna.db"
    return f"sqlite:///{file}" if sweep.search and file.is_file() else None


def short(sweep: SweepProgress) -> dict[str, Any]:
    """A sweep's line; also what `cse status --format json` prints."""
    return {
        "id": sweep.id,
        "title": sweep.title,
        "runs": sweep.runs,
        "asked": sweep.asked,
        "ended": sweep.ended,
        "counts": dict(sweep.counts),
        "share": sweep.share,
        "live": sweep.live,
        "best": sweep.best,
        "best_run": sweep.best_run,
        "seconds_left": sweep.seconds_left,
        "updated": sweep.updated,
        "dashboard": sweep.dashboard,
        "blocked": sweep.blocked,
    }


def whole(sweep: SweepDetail) -> dict[str, Any]:
    """A sweep with its runs and curves."""
    return {
        **short(sweep.progress),
        "list": [run(one) for one in sweep.runs],
        "unlisted": sweep.unlisted,
        "curves": [vars(curve) for curve in sweep.curves],
    }


def run(one: RunProgress) -> dict[str, Any]:
    row = one.row
    return {
        "label": one.label,
        "signature": row.signature,
        "state": row.state,
        "share": row.share,
        "examples": row.examples,
        "total": row.total,
        "best": row.best,
        "reason": row.reason,
    }


def log(engine: Engine, signature: str, storage: Path) -> Mapping[str, Any]:
    """The end of a run's logs, or why there is none to show."""
    folder = run_folder(engine, signature)
    found = tails(folder, storage)
    if found or folder is None:
        return {"files": found, "note": "" if found else "This run has no folder."}
    return {"files": {}, "note": f"No log under {storage} for this run; its folder is {folder}."}
