"""`--track`: finds installed trackers and shows a sweep's runs in them; without the package `cse.trackers` there are
none."""

import contextlib
import importlib
import importlib.util
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType

from cluster.sweep.events import OnEvent
from cse_train.fields import ConfigError

SIDE = "cse.trackers"


def _side() -> ModuleType | None:
    return importlib.import_module(SIDE) if importlib.util.find_spec(SIDE) else None


def names() -> list[str]:
    """Returns the names of all trackers, sorted."""
    side = _side()
    return [*side.names()] if side else []


def check_trackers(values: Iterable[str], storage: Path | None = None) -> tuple[str, ...]:
    """Returns the named trackers, each once; with `storage`, also creates each of them once to see that it works.

    Raises ConfigError for unknown trackers and, with `storage`, for those whose package is absent or that do not work.
    """
    side, chosen = _side(), tuple(values)
    if side is None:
        if chosen:
            raise ConfigError([f"unknown tracker: track={chosen[0]}; this installation has none, leave --track out"])
        return ()
    names: tuple[str, ...] = side.check_trackers(chosen)
    if storage is not None:
        side.make_trackers(names, storage)
    return names


def track_sweep(
    ledger: str, sweeps: Mapping[str, str], labels: Mapping[str, str], names: Iterable[str], storage: Path
) -> AbstractContextManager[OnEvent]:
    """Returns a context manager whose value passes a sweep's events to the trackers.

    `sweeps` and `labels`, both by signature, may grow meanwhile.
    """
    side = _side()
    if side is None:
        return contextlib.nullcontext(lambda event: None)
    tracking: AbstractContextManager[OnEvent] = side.Tracking(
        ledger, sweeps, labels, side.make_trackers(names, storage)
    )
    return tracking
