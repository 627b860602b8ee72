"""Data of the live page as plain values for JSON."""

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from analysis.documents import convert_row
from analysis.ledger import queries
from analysis.ledger.database import transaction
from analysis.progress.rows import ProgressRow
from analysis.progress.sweeps import Follower, SweepProgress
from analysis.run_folder import RunFolder
from analysis.run_state import RunState
from cse.cli.status_text import facts
from cse.live_page.listing import Listing, page

FAILED_NAMED = 50
"""Maximum number of failed runs named for each reason."""


def state(follower: Follower, sweep: str | None, storage: Path) -> dict[str, object]:
    """Returns every sweep in short, and one with curves and failures: the named one, else the first.

    `mirror` is the address of the Optuna database that a search keeps beside its runs; None without one. Raises
    LedgerError if the ledger cannot be read.
    """
    progress = follower.overview()
    chosen = sweep or (progress.sweeps[0].id if progress.sweeps else None)
    detail = follower.detail(chosen) if chosen else None
    shown: dict[str, object] | None = None
    if detail is not None:
        file = storage / "optuna.db"
        shown = {
            **_sweep(detail),
            "failures": _failures(detail.rows, detail.labels),
            "mirror": f"sqlite:///{file}" if detail.search and file.is_file() else None,
        }
        del shown["list"], shown["unlisted"]  # the page requests them as a table
    return {"now": progress.now, "sweeps": list(map(_sweep, progress.sweeps)), "sweep": shown}


def _sweep(sweep: SweepProgress) -> dict[str, object]:
    """Returns a sweep's fields, with the facts that `cse status` prints as one text."""
    turned = ["scores have their sign turned: the lower value is the better one"] if sweep.is_turned else []
    return {**convert_row(sweep), "facts": ", ".join([*facts(sweep), *turned, *sweep.spent])}


def _failures(rows: Sequence[ProgressRow], labels: Mapping[str, str]) -> list[dict[str, object]]:
    """Returns failed runs grouped by reason, the most frequent first; at most FAILED_NAMED runs of each are named."""
    by_reason: dict[str, list[str]] = {}
    for row in rows:
        if row.state == RunState.FAILED:
            by_reason.setdefault(row.reason or "no reason is recorded", []).append(row.signature)
    return [
        {
            "reason": reason,
            "count": len(runs),
            "runs": [{"signature": run, "label": labels[run]} for run in runs[:FAILED_NAMED]],
        }
        for reason, runs in sorted(by_reason.items(), key=lambda item: -len(item[1]))
    ]


def runs(follower: Follower, sweep: str, query: Mapping[str, str]) -> dict[str, object]:
    """Returns a page of a sweep's runs, sorted and filtered by `query`.

    Raises LedgerError if the ledger cannot be read, and FilterError for a column that the sweep does not have.
    """
    labelled, start = follower.labelled(sweep), query.get("from", "0")
    if labelled is None:
        return {}
    return page(
        Listing(*labelled),
        sort=query.get("sort", ""),
        down=query.get("down") == "1",
        words=query.get("words", ""),
        folded=query.get("fold") == "1",
        offset=int(start) if start.isdecimal() and len(start) < 10 else 0,
    )


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


TAIL_BYTES = 6000
RANKS = 4
"""Maximum number of log files shown for one run."""


def log(engine: Engine, signature: str, storage: Path) -> dict[str, object]:
    """Returns the ends of a run's log files, or a note on why there are none to show. Raises LedgerError."""
    with transaction(engine) as connection:
        stored = queries.runs(connection, signatures=[signature])
    folder = stored[0].folder if stored else None
    files = tails(folder, storage) if folder else {}
    if files or folder is None:
        return {"files": files, "note": "" if files else "This run has no folder."}
    return {"files": {}, "note": f"No log under {storage} for this run; its folder is {folder}."}


def tails(folder: str, storage: Path) -> dict[str, str]:
    """Returns log file name -> its last complete lines, TAIL_BYTES at most, for the logs in a run's folder.

    Empty where there are none, and where they lie outside `storage` once links are followed.
    """
    root, texts = storage.resolve(), dict[str, str]()
    for path in RunFolder(Path(folder)).written_logs()[:RANKS]:
        try:
            real = path.resolve()
        except (OSError, RuntimeError):  # links in a circle
            continue
        if real.is_relative_to(root) and real.is_file():
            with real.open("rb") as stream:
                length = stream.seek(0, os.SEEK_END)
                stream.seek(max(0, length - TAIL_BYTES))
                text = stream.read(TAIL_BYTES).decode("utf8", errors="replace")
            texts[path.name] = text if length <= TAIL_BYTES else text.partition("\n")[2]
    return texts
