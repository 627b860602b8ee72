"""`--track`: the trackers that are installed, and one sweep's runs in some of them. Without the side there are none."""

import contextlib
import importlib
import importlib.util
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from cluster.sweep.events import OnEvent
from cse_train.fields import ConfigError

SIDE = "cse.trackers"


class Trackers(Protocol):
    """What the side offers."""

    def names(self) -> list[str]: ...

    def check_trackers(self, given: Iterable[str]) -> tuple[str, ...]: ...

    def make_trackers(self, wanted: Iterable[str], storage: Path) -> Mapping[str, object]: ...

    def Tracking(
        self, ledger: str, sweeps: Mapping[str, str], labels: Mapping[str, str], trackers: Mapping[str, object]
    ) -> AbstractContextManager[OnEvent]: ...


def _side() -> Trackers | None:
    if importlib.util.find_spec(SIDE) is None:
        return None
    side: Trackers = importlib.import_module(SIDE)
    return side


def names() -> list[str]:
    """Every tracker's name, sorted."""
    side = _side()
    return side.names() if side else []


def check_trackers(given: Iterable[str], storage: Path | None = None) -> tuple[str, ...]:
    """The trackers named, each once; with `storage` each is also made once.

    ConfigError for unknown ones, and with `storage` for those whose package is absent or that could not work.
    """
    side, wanted = _side(), tuple(given)
    if side is None:
        if wanted:
            raise ConfigError([f"unknown tracker: track={wanted[0]}; this installation has none, leave --track out"])
        return ()
    names = side.check_trackers(wanted)
    if storage is not None:
        side.make_trackers(names, storage)
    return names


def track_sweep(
    ledger: str, sweeps: Mapping[str, str], labels: Mapping[str, str], names: Iterable[str], storage: Path
) -> AbstractContextManager[OnEvent]:
    """Takes the events of one sweep, as a context manager; `sweeps` and `labels` (by signature) may grow meanwhile."""
    side = _side()
    if side is None:
        return contextlib.nullcontext(lambda event: None)
    return side.Tracking(ledger, sweeps, labels, side.make_trackers(names, storage))
