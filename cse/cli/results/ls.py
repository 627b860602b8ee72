"""`cse ls`: lists the sweeps of a ledger."""

from analysis.ledger import Ledger
from analysis.run_state import RunState
from cse.cli.ledgers import LedgerUrl, existing_ledger
from cse.cli.listing import FormatOption, listing
from cse_train.fields import natural

STATES_SHOWN = (RunState.DONE, RunState.RUNNING, RunState.STOPPED, RunState.FAILED)


def ls(ledger: LedgerUrl = None, form: FormatOption = "text") -> None:
    """List the sweeps of a ledger and how far each is."""
    rows = list_sweeps(existing_ledger(ledger))
    print(listing(rows, form, "no sweeps yet: cse demo starts one", spare=("other",)))


def list_sweeps(opened: Ledger | None) -> list[dict[str, object]]:
    """Returns a row for each sweep of a ledger, with counts of its runs by state."""
    sweeps = opened.sweeps() if opened else []
    rows: list[dict[str, object]] = []
    for sweep in sorted(sweeps, key=lambda sweep: natural(sweep.id)):
        counts: dict[str, int] = {state: sweep.states.get(state, 0) for state in STATES_SHOWN}
        other = sum(sweep.states.values()) - sum(counts.values())
        rows.append({"sweep": sweep.id, "title": sweep.spec.title, "runs": sweep.runs, **counts, "other": other})
    return rows
