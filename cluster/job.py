"""A run as the ranks of a slot get it: plain data."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis.ledger import Claim
from cluster.bookings import Ticket
from cluster.options import SweepOptions
from cluster.packages import code_digest
from cse_train.config import DataPaths


def job_of(ticket: Ticket, previous: Sequence[str], paths: DataPaths, options: SweepOptions) -> dict[str, Any]:
    """What to train or score, where, and how; `previous` are folders of earlier attempts, newest first."""
    train = ticket.planned.run.train
    return {
        "signature": ticket.planned.signature,
        "kind": "train" if ticket.claim else "score",
        "config": ticket.planned.run.flat(),
        "paths": {k: str(v) if v else None for k, v in vars(paths).items()},
        "folder": str(ticket.folder),
        "previous": list(previous),
        "suites": list(ticket.suites),
        "function": options.function,
        "scorer": options.scorer,
        "gated": options.asha is not None,
        "threads": max(1, int(options.cpus_per_worker)),
        "seed": train.seed,
        "total_examples": max(1, train.examples // train.batch_size) * train.batch_size,
    }


def earlier(claim: Claim, home: Path) -> list[str]:
    """Folders of earlier attempts, newest first; a `final` that was renamed but never booked comes first."""
    unbooked = [str(home / "final")] if (home / "final").is_dir() else []
    return list(dict.fromkeys([*unbooked, *claim.previous_folders]))


def slot_config(options: SweepOptions) -> dict[str, Any]:
    """What a slot needs beside the job."""
    return {
        "group": {
            "workers": options.workers,
            "cpus": options.cpus_per_worker,
            "gpus": options.gpus_per_worker,
            "timeout_s": options.timeout_s,
            "storage": str(options.storage),
            "digest": code_digest(),
        },
        "group_class": options.group,
        "recycle_after": options.recycle_after,
        "max_retries": options.max_retries,
    }
