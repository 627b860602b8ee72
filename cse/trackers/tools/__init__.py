"""The trackers of `--track`; each module in this folder sends runs to the tracker with its name.

A module imports its tracker's package at its top; the package is an extra of cse-search with the module's name. It has
`Tracker(storage)`, created in the user's folder before Ray starts (ConfigError if it could not work), with
- `send(run)`: shows a `TrackedRun` in its present state. It is called in the tracker's own thread, may block, and may
  raise: it is then called again later with the same news;
- `close()`: is called after the last `send`.
"""

import importlib
import pkgutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from analysis.run_state import RunState
from cse_train.fields import ConfigError, Settings, nearest
from cse_train.reading import first_line

__all__ = ()


@dataclass(frozen=True, kw_only=True)
class TrackedRun:
    """Present state of one run in the ledger, for a tracker."""

    signature: str
    sweep: str
    name: str
    """Name of the run: its cell and seed."""
    settings: Settings
    """Settings by dotted key, the method included."""
    points: Sequence[tuple[int, Mapping[str, float]]]
    """New points since the last `send`: training examples -> dev score, loss and other metrics."""
    whole: bool
    """True if `points` is the curve from its beginning, since this process has sent nothing yet."""
    scores: Mapping[str, float]
    """Suite -> score of the finished run."""
    best: float | None
    """Best dev score so far; None before the first evaluation."""
    state: RunState
    reason: str
    """Why the run failed or was retried; may be empty."""
    retries: int
    """Number of times that this sweep continued the run after a fault."""

    @property
    def ended(self) -> bool:
        """True if this sweep no longer trains the run."""
        return not self.state.is_held

    @property
    def results(self) -> dict[str, float]:
        """Returns the final numbers of a run: `best` and `score/SUITE`."""
        best = {} if self.best is None else {"best": self.best}
        return best | {f"score/{suite}": value for suite, value in self.scores.items()}

    @property
    def notes(self) -> dict[str, str]:
        """Returns the run's texts: state, reason, retries and signature."""
        facts = {
            "state": self.state.value,
            "reason": self.reason,
            "retries": str(self.retries),
            "signature": self.signature,
        }
        return {name: value for name, value in facts.items() if value}


class Tracker(Protocol):
    """Interface of the `Tracker` class that each tracker's module has."""

    def send(self, run: TrackedRun) -> None: ...

    def close(self) -> None: ...


def names() -> list[str]:
    """Returns the names of all trackers, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def check_trackers(values: Iterable[str]) -> tuple[str, ...]:
    """Returns the named trackers, each once; a value may list several with commas; ConfigError for unknown ones."""
    chosen = tuple(dict.fromkeys(name.strip() for part in values for name in part.split(",") if name.strip()))
    if unknown := [name for name in chosen if name not in names()]:
        raise ConfigError([f"unknown tracker: track={name}; {nearest(name, names())}" for name in unknown])
    return chosen


def make_trackers(chosen: Iterable[str], storage: Path) -> dict[str, Tracker]:
    """Returns name -> tracker. Raises ConfigError with a line for each whose package cannot be imported."""
    trackers, problems = {}, []
    for name in chosen:
        try:
            trackers[name] = importlib.import_module(f"{__name__}.{name}").Tracker(storage)
        except ImportError as error:
            reason = f"{first_line(error)}; pip install 'cse-search[{name}]'"
            problems.append(f"tracker without its package: track={name}; {reason}")
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return trackers
