"""Which cell of a sweep wins, by which rule, and what the choice among so many is worth."""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.ledger import Ledger, RunRow
from cluster.plan.match import known
from cluster.search.posterior import pick
from cse.tables.lookup import space_of_sweep
from cse_train.fields import ConfigError
from search_spaces.cells import ResolvedSpace

BY_MEAN = "highest mean dev score over seeds"
BY_POSTERIOR = "highest posterior mean"


@dataclass(frozen=True)
class CellRuns:
    """A cell with its finished runs."""

    cell: Mapping[str, Any]
    runs: tuple[RunRow, ...]

    @property
    def scores(self) -> tuple[float, ...]:
        """Best dev scores, in the order of the runs."""
        return tuple(run.best for run in self.runs if run.best is not None)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.scores)

    @property
    def best_run(self) -> RunRow:
        return max(self.runs, key=lambda run: run.best or 0.0)

    @property
    def name(self) -> str:
        return " ".join(f"{key}={value}" for key, value in self.cell.items())


@dataclass(frozen=True)
class Selected:
    """The cell that a rule picks among all that have finished runs."""

    sweep: str
    rule: str
    cell: CellRuns
    value: float
    """What the rule ranks by: the mean over seeds, or the posterior mean."""
    candidates: tuple[CellRuns, ...]
    """Every cell with a finished run, the highest mean first."""

    @property
    def run(self) -> RunRow:
        """The picked cell's run with the highest dev score: whose checkpoint is used."""
        return self.cell.best_run


def selected(ledger: Ledger, sweep: str) -> Selected:
    """The pick of a sweep: by posterior mean where its space is searched, else by mean. ConfigError for no run."""
    cells = ranked(ledger, sweep)
    if not cells:
        raise ConfigError([f"nothing finished: sweep={sweep} has no done run; let cse run go on"])
    found = _by_posterior(ledger, sweep, cells)
    if found is not None:
        return Selected(sweep, BY_POSTERIOR, *found, tuple(cells))
    return Selected(sweep, BY_MEAN, cells[0], cells[0].mean, tuple(cells))


def ranked(ledger: Ledger, sweep: str) -> list[CellRuns]:
    """Cells with finished runs by mean best dev score, the highest first."""
    done = {run.signature: run for run in ledger.runs(sweep=sweep, states=["done"]) if run.best is not None}
    by_cell: dict[str, tuple[dict[str, Any], dict[str, RunRow]]] = {}
    for link in ledger.cells(sweep):
        if link.signature in done:
            _, runs = by_cell.setdefault(_id(link.cell), (link.cell, {}))
            runs[link.signature] = done[link.signature]
    rows = [CellRuns(cell, tuple(runs.values())) for cell, runs in by_cell.values()]
    return sorted(rows, key=lambda row: -row.mean)


def _id(cell: Mapping[str, Any]) -> str:
    return json.dumps(dict(cell), sort_keys=True)


def _by_posterior(ledger: Ledger, sweep: str, cells: Sequence[CellRuns]) -> tuple[CellRuns, float] | None:
    """The pick of a searched space's posterior; None for a space that is not searched, or is not at hand."""
    resolved = space_of_sweep(sweep, ledger)
    if resolved is None or resolved.space.search is None:
        return None
    best = pick(resolved, _known(resolved, ledger, sweep))
    row = next((row for row in cells if best and _id(row.cell) == best.cell.id), None)
    return (row, best.mean) if row and best else None


def _known(resolved: ResolvedSpace, ledger: Ledger, sweep: str) -> list[Any]:
    """The sweep's runs as a search sees them."""
    links = {link.signature: link for link in ledger.cells(sweep)}
    rows = [(links[run.signature], run) for run in ledger.runs(sweep=sweep)]
    return [known(resolved.cell(link.cell), link.seed, run.state, run.best, run.examples) for link, run in rows]
