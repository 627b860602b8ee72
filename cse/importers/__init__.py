"""Imports finished runs of other tools (`cse import csv|wandb|mlflow|...`) and of bundles as runs of a ledger."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from analysis.tables.spec import Sense
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

    @property
    def values(self) -> dict[str, Scalar]:
        """Name -> value of everything that the tool recorded; a setting wins over a metric of the same name."""
        return {**self.rest, **self.metrics, **self.settings}

    def without(self, names: Collection[str]) -> "ForeignRun":
        """Returns the run without some settings, metrics and other values."""
        return replace(
            self,
            settings={name: value for name, value in self.settings.items() if name not in names},
            metrics={name: value for name, value in self.metrics.items() if name not in names},
            rest={name: value for name, value in self.rest.items() if name not in names},
        )


def names_of(runs: Iterable[ForeignRun]) -> list[str]:
    """Returns the names of all settings, metrics and other values, each once, in the order of the runs."""
    return list(dict.fromkeys(name for run in runs for part in (run.settings, run.metrics, run.rest) for name in part))


@dataclass(frozen=True)
class DeclaredMetric:
    """A metric as declared with --metric: its name, better direction and width of range."""

    name: str
    better: Sense | None = None
    span: float | None = None
