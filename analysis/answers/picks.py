"""Picks of sweeps: whether a model is one of several cells that scores were there to choose by, and a pick's rivals."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from analysis.answers.imported import IMPORTED
from analysis.answers.models import PICK_NAME, Model
from analysis.answers.power import find_spread
from analysis.answers.selection import CellRuns, rank_cells
from analysis.documents import OPTIONAL
from analysis.ledger import Ledger
from analysis.statistics.basics import Spread
from analysis.statistics.selection import find_rivals, pool_cells
from analysis.tables.labels import number_of, some
from analysis.tables.spec import identify
from cse_train.config import complete

RIVALS_SHOWN = 3
"""Number of rivals that a line names."""


@dataclass(frozen=True, kw_only=True)
class Rivals:
    """Cells of a sweep that cannot be told from its pick; with the pick they hold the truly best cell in 95%."""

    cells: Sequence[str] | None
    """Names of the cells that are not surely below the pick, highest mean first; null where no deviation is known."""
    others: int
    """Number of the sweep's cells with a finished run, without the pick."""
    deviation: float | None
    """Standard deviation of a score over seeds of one cell."""
    source: str | None
    """Origin of the deviation."""

    def line(self, digits: int = 2) -> str:
        """Returns a line for people on the cells that cannot be told from the pick."""
        if self.cells is None or self.deviation is None:
            return "cannot be told from it: not known, the ledger has no two seeds of such runs that differ"
        names = f": {some(self.cells, RIVALS_SHOWN)}" if self.cells else ""
        spread = f"at a deviation over seeds of {self.deviation:.{digits}f} ({self.source})"
        return f"cannot be told from it: {len(self.cells)} of {number_of(self.others, 'other cell')}{names}; {spread}"


@dataclass(frozen=True)
class CandidatePool:
    """Sweep from whose cells a model was picked."""

    sweep: str
    cells: int
    """Number of the sweep's cells with a score, without the model that the pick is compared with; the level of a
    judgement is shared by so many, as if each had been asked about."""
    rivals: Rivals | None = field(default=None, metadata=OPTIONAL)
    """Cells that cannot be told from a model that was named as the pick."""

    def lines(self, name: str, level: float) -> list[str]:
        """Returns lines for people on the level of a judgement about the model `name`, and on its rivals."""
        picked = (
            f"{name} was picked of {self.cells} cells of sweep {self.sweep}, which share the level: {level:.3g}; cse "
            f"confirm {self.sweep} --against REFERENCE asks at the full level, by seeds that took no part in the choice"
        )
        return [picked, *([self.rivals.line()] if self.rivals else [])]


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
    if pick is None or pick.cells < 2:
        return None
    ranked = rank_cells(ledger, pick.sweep) if model.name.endswith(f":{PICK_NAME}") else []
    is_first = bool(ranked) and named == {run.signature for run in ranked[0].runs}
    return replace(pick, rivals=rivals_of(ranked, ledger)) if is_first else pick


def rivals_of(cells: Sequence[CellRuns], ledger: Ledger) -> Rivals:
    """Returns the cells that cannot be told from the first of ranked cells, by the deviation of the sweep's own seeds,
    else by that of the ledger's runs with its method, encoder and dev set."""
    scores, source = [cell.scores for cell in cells], "the sweep's own seeds"
    spread, runs = pool_cells(scores), [cell.runs[0] for cell in cells]
    if not (spread and spread.sd) and not any(IMPORTED in run.identity for run in runs):
        setups = [complete({"method": run.method, **run.config}) for run in runs]
        found = find_spread(setups, ledger.runs())
        spread, source = (Spread(found.deviation, found.freedom), found.source) if found else (None, "")
    if not (spread and spread.sd):
        return Rivals(cells=None, others=len(cells) - 1, deviation=None, source=None)
    names = [cells[place].name for place in find_rivals(scores, 0, spread)]
    return Rivals(cells=names, others=len(cells) - 1, deviation=spread.sd, source=source)
