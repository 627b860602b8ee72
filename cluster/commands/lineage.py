"""What the ledger knows of a run, for its model card."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster.commands.run_folder import row_of

if TYPE_CHECKING:
    from analysis.ledger import Ledger
    from cse_train.exporting.card import Lineage


def lineage_of(folder: Path, ledger: "Ledger | None") -> "Lineage":
    """The lineage of the run whose files lie in `folder`; an empty one for a run outside the ledger."""
    from cse_train.exporting.card import Lineage

    row = row_of(folder, ledger) if ledger else None
    if ledger is None or row is None:
        return Lineage()
    linked = _links(row.signature, ledger)
    sweeps = list(linked)
    cell, seeds = linked[sweeps[-1]] if sweeps else ({}, [row.signature])
    attempts = [entry.details for entry in ledger.provenance(row.signature) if entry.attempt == row.attempt]
    return Lineage(
        signature=row.signature,
        sweeps=sweeps,
        cell=cell,
        seeds={run.seed: run.best for run in ledger.runs(states=["done"], signatures=seeds)},
        hashes=row.identity,
        provenance=attempts[-1] if attempts else {},
        scores=[(s.suite, s.value, s.protocol) for s in ledger.scores([row.signature]) if s.value is not None],
    )


def _links(signature: str, ledger: "Ledger") -> dict[str, tuple[dict[str, Any], list[str]]]:
    """Sweep, oldest first -> the run's cell there and the signatures of all of the cell's seeds."""
    found = {}
    for sweep in ledger.sweeps():
        links = ledger.cells(sweep.id)
        cell = next((link.cell for link in links if link.signature == signature), None)
        if cell is not None:
            found[sweep.id] = (cell, [link.signature for link in links if link.cell == cell])
    return found
