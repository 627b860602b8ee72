"""`cse ls`: the sweeps of a ledger."""

from collections.abc import Mapping

from analysis.run_state import RunState, Standing
from cse.cli.ledgers import LedgerUrl, existing_ledger
from cse.cli.listing import FormatOption, listing
from cse_train.fields import natural

STATES_SHOWN = (RunState.DONE, RunState.RUNNING, RunState.STOPPED, RunState.FAILED)


def ls(ledger: LedgerUrl = None, form: FormatOption = "text") -> None:
    """List the sweeps of a ledger and how far each is."""
    opened = existing_ledger(ledger)
    sweeps = opened.sweeps() if opened else []
    rows = [
        {"sweep": s.id, "title": s.spec.title, "runs": s.runs, **_counts(s.states)}
        for s in sorted(sweeps, key=lambda sweep: natural(sweep.id))
    ]
    print(listing(rows, form, "no sweeps yet: cse run E7 starts one", spare=("other",)))


def _counts(states: Mapping[Standing, int]) -> dict[str, int]:
    shown = {name: states.get(name, 0) for name in STATES_SHOWN}
    return shown | {"other": sum(states.values()) - sum(shown.values())}
