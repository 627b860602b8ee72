"""Imports finished runs of other tools (`cse import csv|wandb|mlflow|...`) and of bundles as runs of a ledger."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cse_train.fields import Scalar

__all__ = ()

INFEASIBLE = "infeasible"
"""State of a run that has ended and breaks a constraint of its study."""


@dataclass(frozen=True, kw_only=True)
class ForeignRun:
    """One run as another tool recorded it, before it becomes a run of the ledger."""

    id: str
    """ID of the run within its tool, which stays when the tool learns more of the run; "" for a tool without IDs.

    Runs without an ID are recognised by their values.
    """
    earlier_id: str = ""
    """ID that an earlier version of cse-search gave the run, if it differs from `id`."""
    unfinished: str = ""
    """The tool's state of a run that did not end in order, and is not imported; "" for a finished run."""
    settings: Mapping[str, Scalar]
    metrics: Mapping[str, float]
    """Metric name -> value at the end of the run."""
    rest: Mapping[str, Scalar] = field(default_factory=dict)
    """Other values of the tool, such as texts, that are taken as settings only by --rename."""
    is_flat: bool = False
    """True if only names tell which values are settings and which are metrics, as in a table."""
    lower: frozenset[str] = frozenset()
    """Names of metrics of which lower values are better, where the tool says so."""
    seconds: float | None = None
    begun: float | None = None
    """Start of the run in seconds since 1970."""
    row: int | None = None
    """Line of the source file from which the run is read."""
    superseded: frozenset[str] = frozenset()
    """Settings that an earlier version of cse-search read from values that are read differently today."""
    remarks: Sequence[str] = ()
    """Lines for the user on the run's source; equal lines of several runs are printed once."""
