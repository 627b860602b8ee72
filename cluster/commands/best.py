"""`cse best`: the cells of a sweep with the highest mean on the dev set, and where their models lie."""

import json
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cluster.commands.arguments import LedgerUrl, check_sweep, existing_ledger
from cluster.commands.columns import Format, FormatOption, listing

if TYPE_CHECKING:
    from analysis.ledger import Ledger, RunRow, SweepCell

Sweep = Annotated[str, typer.Argument(help="A sweep's name (cse ls).")]
Top = Annotated[int, typer.Option(min=1, help="Cells to show.")]


def best(sweep: Sweep, ledger: LedgerUrl = None, top: Top = 3, form: FormatOption = Format.text) -> None:
    """Show a sweep's best cells by mean dev score over seeds, each with the folder of its best run."""
    opened = existing_ledger(ledger)
    check_sweep(sweep, opened)
    assert opened is not None
    rows = ranked(opened, sweep)[:top]
    print(listing(rows, form, "no finished run yet"))


def ranked(ledger: "Ledger", sweep: str) -> list[dict[str, Any]]:
    """Cells by mean best score of their finished runs, best first."""
    done = {run.signature: run for run in ledger.runs(sweep=sweep, states=["done"]) if run.best is not None}
    by_cell: dict[str, list[SweepCell]] = {}
    for link in ledger.cells(sweep):
        if link.signature in done:
            by_cell.setdefault(json.dumps(link.cell, sort_keys=True), []).append(link)
    rows = [_row(links[0].cell, [done[link.signature] for link in links]) for links in by_cell.values()]
    return sorted(rows, key=lambda row: -row["mean"])


def _row(cell: dict[str, Any], runs: Sequence["RunRow"]) -> dict[str, Any]:
    scores = [run.best for run in runs if run.best is not None]
    first = max(runs, key=lambda run: run.best or 0.0)
    return {
        "cell": " ".join(f"{key}={value}" for key, value in cell.items()),
        "n": len(scores),
        "mean": statistics.fmean(scores),
        "sd": statistics.stdev(scores) if len(scores) > 1 else None,
        "best": first.best,
        "signature": first.signature,
        "folder": first.folder,
    }
