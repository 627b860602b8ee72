"""Finished runs of others' tools as runs of a ledger: `cse import wandb|mlflow|optuna`.

They are marked in `identity`, and no signature of ours can be theirs: nothing is trained less because of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cse_train.fields import Scalar

IMPORTED = "imported"
"""The entry of a run's `identity` that names the tool which made it; runs of ours have none."""


@dataclass(frozen=True, kw_only=True)
class ForeignRun:
    """One finished run as its tool has it."""

    id: str
    """What tells it from every other run of that tool."""
    settings: Mapping[str, Scalar]
    metrics: Mapping[str, float]
    """Name -> value at the end of the run."""
    lower: frozenset[str] = frozenset()
    """Metrics whose lower value is the better one, where the tool says so."""
    seconds: float | None = None
    begun: float | None = None
    """Seconds since 1970."""
