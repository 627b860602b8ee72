"""Finished runs of others' tools as runs of a ledger: `cse import csv|wandb|mlflow|...`; and those of a bundle."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cse_train.fields import Scalar

__all__ = ()

INFEASIBLE = "infeasible"
"""How a run stands that has ended and breaks a constraint of its study."""


@dataclass(frozen=True, kw_only=True)
class ForeignRun:
    """One run as its tool has it."""

    id: str
    """What tells it from every other run of that tool, and stays when the tool knows more of it; empty where the tool
    says nothing of the kind, and then its values do."""
    earlier_id: str = ""
    """What an earlier version took for the ID, where that differs."""
    unfinished: str = ""
    """The tool's word for a run that did not end in order: it is not taken."""
    settings: Mapping[str, Scalar]
    metrics: Mapping[str, float]
    """Name -> value at the end of the run."""
    rest: Mapping[str, Scalar] = field(default_factory=dict)
    """What the tool has beside, which nobody can place without --rename: texts, columns of no known kind."""
    is_flat: bool = False
    """Whether names alone say which of its values are settings and which are metrics."""
    lower: frozenset[str] = frozenset()
    """Metrics whose lower value is the better one, where the tool says so."""
    seconds: float | None = None
    begun: float | None = None
    """Seconds since 1970."""
    row: int | None = None
    """The line of its file that it is read from."""
    superseded: frozenset[str] = frozenset()
    """Settings that an earlier version made of what is read otherwise today."""
    remarks: Sequence[str] = ()
    """What a person must know of its source, a line each; equal lines of several runs are printed once."""
