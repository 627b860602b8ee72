"""Events that a sweep sends to its listeners, and the outcome of a sweep."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from analysis.run_state import RunState


class EventKind(StrEnum):
    """Kind of an event: what happened to a run or, for the last three kinds, to Ray, the cluster or the ledger."""

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
"""Kinds of events in which a run of this call ended."""


@dataclass(frozen=True, kw_only=True)
class SweepEvent:
    """One event of a sweep; `kind` says what happened, the other fields describe the run at that time."""

    kind: EventKind
    signature: str = ""
    examples: int = 0
    total_examples: int = 0
    """Number of training examples of the whole run."""
    best: float | None = None
    """Best score so far, higher is better; a score whose lower value is better has its sign reversed here."""
    is_turned: bool = False
    state: RunState | None = None
    """State of the run in the ledger after this event."""
    reason: str = ""
    """Reason, in one line, why the run failed, was retried, or waits."""
    log: str = ""

    @property
    def best_reported(self) -> float | None:
        """Best score so far, with the sign that the run reports."""
        return -self.best if self.is_turned and self.best is not None else self.best


OnEvent = Callable[[SweepEvent], None]


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A run that ended without a result, with the reason and its log folder."""

    signature: str
    reason: str
    log: str = ""


@dataclass(frozen=True, kw_only=True)
class SweepOutcome:
    """Counts and failures of one call of `run_sweep`; each run (signature) counts once."""

    done: int = 0
    reused: int = 0
    """Number of runs that were finished already, by an earlier call or by another driver meanwhile."""
    stopped: int = 0
    failures: tuple[Failure, ...] = field(default=())
    not_started: int = 0
    """Number of runs left untrained for lack of an input for which another run failed."""
    interrupted: bool = False
    """True if a signal ended the sweep; its claims are then released, and the same call continues."""
    seconds: float = 0.0
    freed: int = 0
    """Bytes of checkpoints that --keep-top and --disk-quota deleted."""
    over: int = 0
    """Bytes above --disk-quota that are kept, being in use or having scores."""

    @property
    def failed(self) -> int:
        return len(self.failures)
