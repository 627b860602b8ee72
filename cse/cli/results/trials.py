"""`cse trials`: the runs of a ledger."""

import dataclasses
from typing import Annotated, Any

import typer

from analysis.ledger import RunRow
from cse.cli.listing import FormatOption, listing
from cse.cli.options import LedgerUrl, check_sweep, existing_ledger

Sweep = Annotated[
    str | None, typer.Argument(help="Only the runs of this sweep (cse ls names them).", show_default=False)
]
State = Annotated[list[str] | None, typer.Option("--state", help="Only runs in this state.", show_default=False)]


def trials(sweep: Sweep = None, ledger: LedgerUrl = None, state: State = None, form: FormatOption = "text") -> None:
    """List runs: one row per (cell, seed), failed ones too."""
    opened = existing_ledger(ledger)
    if sweep is not None:
        check_sweep(sweep, opened)
    runs = opened.runs(sweep=sweep, states=state) if opened else []
    rows = [dataclasses.asdict(run) if form == "json" else _short(run) for run in runs]
    print(listing(rows, form, "no runs yet: cse run E7 starts some"))


def _short(run: RunRow) -> dict[str, Any]:
    return {
        "signature": run.signature[:12],
        "state": run.state,
        "method": run.method,
        "seed": run.seed,
        "examples": run.examples,
        "best": run.best,
        "seconds": run.seconds,
        "folder or reason": run.reason or run.folder or "",
    }
