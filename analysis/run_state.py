"""States of a run in a ledger, and what each state allows. All other code asks this module.

A state is equal to its text, which databases, bundles and JSON hold.
"""

from enum import StrEnum
from typing import Literal


class RunState(StrEnum):
    """State of a run in a ledger."""

    CLAIMED = "claimed"
    """A driver holds the run by a lease and has not begun to train it."""
    RUNNING = "running"
    """A driver holds the run by a lease, and its ranks have begun to train."""
    DONE = "done"
    """The run was trained to its end."""
    STOPPED = "stopped"
    """A scheduler ended the run early, as planned: its best score counts."""
    FAILED = "failed"
    """The run ended by an error of its own."""
    LOST = "lost"
    """The run was interrupted by no fault of its own: its driver or its machine went away."""

    @property
    def is_held(self) -> bool:
        """True if an owner holds the run by a lease."""
        return self in HELD

    @property
    def is_final(self) -> bool:
        """True if the driver saw the run end, so that the state changes no more by itself."""
        return self in FINAL

    @property
    def has_result(self) -> bool:
        """True if the run ended as planned: its best score counts, and nobody writes to its files any more."""
        return self in WITH_RESULT


HELD = (RunState.CLAIMED, RunState.RUNNING)
"""States in which an owner holds a run by a lease."""
CLAIMABLE = (RunState.STOPPED, RunState.FAILED, RunState.LOST)
"""States in which anyone may claim the next attempt of a run."""
NOT_HELD = (RunState.DONE, *CLAIMABLE)
"""States in which nobody holds a run: an attempt ends in one of them, and only such runs are exported."""
FINAL = (RunState.DONE, RunState.STOPPED, RunState.FAILED)
"""States of runs whose driver saw them end."""
WITH_RESULT = (RunState.DONE, RunState.STOPPED)
"""States of runs that ended as planned and have a result."""

Unclaimed = Literal["unclaimed"]
UNCLAIMED: Unclaimed = "unclaimed"
"""Standing of a run that a sweep or a table asks for and the ledger does not have: nobody has claimed it yet."""
Standing = RunState | Unclaimed
"""State of a run that a sweep or a table asks for, or UNCLAIMED."""


def standing(state: RunState, live: bool) -> RunState:
    """Returns the state that other processes see: a held run whose lease has ended is lost."""
    return RunState.LOST if state.is_held and not live else state
