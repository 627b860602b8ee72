"""`cse ls`: lists the sweeps of a ledger."""

from dataclasses import dataclass

from analysis.ledger import Ledger
from analysis.run_state import RunState
from cse.cli.ledgers import LedgerUrl, existing_ledger
from cse.cli.listing import FormatOption, listing
from cse_train.fields import natural


@dataclass(frozen=True)
class SweepCounts:
    """One sweep of a ledger, with its runs by state."""

    sweep: str
    title: str
    runs: int
    done: int
    running: int
    stopped: int
    failed: int
    other: int
    """Runs in any other state, and those that nobody has claimed yet."""


Answer = list[SweepCounts]


def ls(ledger: LedgerUrl = None, form: FormatOption = "text") -> None:
    """List the sweeps of a ledger and how far each is."""
    rows = list_sweeps(existing_ledger(ledger))
    print(listing(rows, form, "no sweeps yet: cse demo starts one", spare=("other",)))


def list_sweeps(opened: Ledger | None) -> list[SweepCounts]:
    """Returns the sweeps of a ledger with their runs by state, in the natural order of their names."""
    rows = []
    for sweep in sorted(opened.sweeps() if opened else [], key=lambda sweep: natural(sweep.id)):
        done, running, stopped, failed = (
            sweep.states.get(state, 0) for state in (RunState.DONE, RunState.RUNNING, RunState.STOPPED, RunState.FAILED)
        )
        other = sum(sweep.states.values()) - done - running - stopped - failed
        rows.append(SweepCounts(sweep.id, sweep.spec.title, sweep.runs, done, running, stopped, failed, other))
    return rows
