"""What happened in a sweep, as its listeners get it, and how it ended."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from analysis.run_state import RunState


class EventKind(StrEnum):
    """What happened: to a run, or, the last three, to the sweep."""

    REUSED = "reused"
    WAITING = "waiting"
    STARTED = "started"
    POINT = "point"
    RETRIED = "retried"
    REQUEUED = "requeued"
    RESTING = "resting"
    SCORED = "scored"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"
    RAY = "ray"
    CLUSTER = "cluster"
    LEDGER = "ledger"


RUN_ENDS = (EventKind.DONE, EventKind.STOPPED, EventKind.FAILED)
"""A run of this call ended."""


@dataclass(frozen=True, kw_only=True)
class SweepEvent:
    """One thing that happened; `kind` says what, the other fields describe the run by then."""

    kind: EventKind
    signature: str = ""
    examples: int = 0
    total_examples: int = 0
    """Examples of the whole run."""
    best: float | None = None
    """The higher one wins: of a score whose lower value is better the sign is turned."""
    is_turned: bool = False
    state: RunState | None = None
    """The run's state in the ledger after this event."""
    reason: str = ""
    """One line: why it failed, was retried, or is waited for."""
    log: str = ""
    """Folder of the run's log files, where it has one."""

    @property
    def best_reported(self) -> float | None:
        """The best score with the sign that the run reports."""
        return -self.best if self.is_turned and self.best is not None else self.best


OnEvent = Callable[[SweepEvent], None]


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A run that ended without a result."""

    signature: str
    reason: str
    log: str = ""


@dataclass(frozen=True, kw_only=True)
class SweepOutcome:
    """What one call did; counts are of distinct signatures."""

    done: int = 0
    """Trained to the end by this call."""
    reused: int = 0
    """Finished already, here before or by another driver meanwhile."""
    stopped: int = 0
    """Ended early by the scheduler."""
    failures: tuple[Failure, ...] = field(default=())
    not_started: int = 0
    """Runs that need an input for which another failed."""
    interrupted: bool = False
    """Ended by a signal: claims are released, the same call continues."""
    seconds: float = 0.0
    freed: int = 0
    """Bytes of checkpoints that --keep-top and --disk-quota freed."""
    over: int = 0
    """Bytes above --disk-quota that are in use or have scores."""

    @property
    def failed(self) -> int:
        return len(self.failures)
