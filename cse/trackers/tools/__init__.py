"""The trackers of `--track`. The folder is the registry: each module sends a sweep's runs to the tracker of its name.

A module imports its tracker's package at its top; the package is an extra of ours with the module's name. It has
`Tracker(storage)`, made in the user's folder before Ray starts (ConfigError where it could not work), with
- `send(run)`: show a `TrackedRun` as it stands now. It is called in a thread of the tracker's own, may block, and may
  raise: the same news then come again later;
- `close()`: nothing more comes.
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
    """One run as the ledger has it now."""

    signature: str
    sweep: str
    name: str
    """Its cell and seed."""
    settings: Settings
    """Method and every other setting, by dotted key."""
    points: Sequence[tuple[int, Mapping[str, float]]]
    """Training examples -> dev score, loss and other metrics: what was not sent before."""
    whole: bool
    """Whether `points` is the curve from its beginning: nothing was sent by this process yet."""
    scores: Mapping[str, float]
    """Suite -> score of the finished run."""
    best: float | None
    """Best dev score so far."""
    state: RunState
    reason: str
    """Why it failed, or was retried; may be empty."""
    retries: int
    """Times that this sweep continued it after a fault."""

    @property
    def ended(self) -> bool:
        """Whether this sweep is over with the run."""
        return not self.state.is_held

    @property
    def results(self) -> dict[str, float]:
        """What stands at the end of a run: `best` and `score/SUITE`."""
        best = {} if self.best is None else {"best": self.best}
        return best | {f"score/{suite}": value for suite, value in self.scores.items()}

    @property
    def notes(self) -> dict[str, str]:
        """What is no number: state, reason, retries and signature."""
        facts = {
            "state": self.state.value,
            "reason": self.reason,
            "retries": str(self.retries),
            "signature": self.signature,
        }
        return {name: value for name, value in facts.items() if value}


class Tracker(Protocol):
    """What a module of the folder makes."""

    def send(self, run: TrackedRun) -> None: ...

    def close(self) -> None: ...


def names() -> list[str]:
    """Every tracker's name, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def check_trackers(given: Iterable[str]) -> tuple[str, ...]:
    """The trackers named, each once; a value may hold several with commas between. ConfigError for unknown ones."""
    wanted = tuple(dict.fromkeys(name.strip() for part in given for name in part.split(",") if name.strip()))
    if unknown := [name for name in wanted if name not in names()]:
        raise ConfigError([f"unknown tracker: track={name}; {nearest(name, names())}" for name in unknown])
    return wanted


def make_trackers(wanted: Iterable[str], storage: Path) -> dict[str, Tracker]:
    """Name -> tracker. ConfigError with a line for each whose package is absent or does not import."""
    trackers, problems = {}, []
    for name in wanted:
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
