"""Finds out whether a model is the pick of a sweep: one of several cells whose scores were there to choose by."""

from dataclasses import dataclass

from analysis.answers.models import Model
from analysis.ledger import Ledger
from analysis.tables.spec import identify


@dataclass(frozen=True)
class CandidatePool:
    """Sweep from whose cells a model was picked."""

    sweep: str
    cells: int
    """Number of the sweep's cells with a score, without the model that the pick is compared with; the level of a
    judgement is shared by so many, as if each had been asked about."""

    def line(self, name: str, level: float) -> str:
        """Returns a line for people on the level of a judgement about the model `name`."""
        return (
            f"{name} was picked of {self.cells} cells of sweep {self.sweep}, which share the level: {level:.3g}; cse "
            f"confirm {self.sweep} --against REFERENCE asks at the full level, by seeds that took no part in the choice"
        )


def find_pick(model: Model, other: Model, ledger: Ledger | None) -> CandidatePool | None:
    """Returns the largest sweep that has a run of the model, and from whose cells it may have been chosen; None for a
    model that no sweep of several cells has.

    The highest of m equal cells looks better than a reference in far more than 5 of 100 cases, whichever set is asked:
    its seeds' luck is in every score of these runs. Runs of a confirmation took no part in a choice.
    """
    if ledger is None or not model.runs:
        return None
    named, compared = ({run.signature for run in each.runs} for each in (model, other))
    picks = []
    for sweep in ledger.sweeps():
        if sweep.spec.confirms or named.isdisjoint(ledger.signatures(sweep.id)):
            continue
        scored = {run.signature for run in ledger.runs(sweep=sweep.id) if run.best is not None}
        links = [link for link in ledger.cells(sweep.id) if link.signature in scored]
        apart = {identify(link.cell) for link in links if link.signature in compared}
        picks.append(CandidatePool(sweep.id, len({identify(link.cell) for link in links} - apart)))
    pick = max(picks, key=lambda each: each.cells, default=None)
    return pick if pick and pick.cells > 1 else None
