"""How a run stands in a ledger, and what each state allows: one definition for all who ask.

A state is equal to its text, which is what databases, bundles and JSON hold.
"""

from enum import StrEnum
from typing import Literal


class RunState(StrEnum):
    """One state of a run."""

    CLAIMED = "claimed"
    """A driver holds it by a lease and has not begun."""
    RUNNING = "running"
    """A driver holds it by a lease, and its ranks have begun."""
    DONE = "done"
    """Trained to its end."""
    STOPPED = "stopped"
    """Ended early by a scheduler, in order: its best score counts."""
    FAILED = "failed"
    """Ended by an error of its own."""
    LOST = "lost"
    """Broken off, by no fault of its own: its driver or its machine went away."""

    @property
    def is_held(self) -> bool:
        """Whether an owner holds it by a lease."""
        return self in HELD

    @property
    def is_final(self) -> bool:
        """Whether its driver saw it end: it will not change by itself."""
        return self in FINAL

    @property
    def has_result(self) -> bool:
        """Whether it ended in order, so that its best score counts and nobody writes its files any more."""
        return self in WITH_RESULT


HELD = (RunState.CLAIMED, RunState.RUNNING)
"""An owner holds it by a lease."""
CLAIMABLE = (RunState.STOPPED, RunState.FAILED, RunState.LOST)
"""Anyone may claim the next attempt."""
NOT_HELD = (RunState.DONE, *CLAIMABLE)
"""What an attempt leaves, and what a ledger gives away: nobody holds it."""
FINAL = (RunState.DONE, RunState.STOPPED, RunState.FAILED)
"""Its driver saw it end."""
WITH_RESULT = (RunState.DONE, RunState.STOPPED)
"""It ended in order."""

Unclaimed = Literal["unclaimed"]
UNCLAIMED: Unclaimed = "unclaimed"
"""How a run of a sweep or a table stands that the ledger does not have: nobody has claimed it yet."""
Standing = RunState | Unclaimed
"""How a run that somebody wants stands."""


def standing(state: RunState, live: bool) -> RunState:
    """The state as others see it: a held run whose lease has ended is lost."""
    return RunState.LOST if state.is_held and not live else state
