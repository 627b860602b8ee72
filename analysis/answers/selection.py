"""Selects the best cell of a sweep, estimates the luck in the choice, and holds its scores on test sets."""

import itertools
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from analysis.answers.build import SEED_SETTINGS
from analysis.answers.imported import IMPORTED
from analysis.documents import HIDDEN
from analysis.ledger import Ledger, RunRow
from analysis.matching import add_versions
from analysis.run_state import RunState
from analysis.statistics import surface
from analysis.tables.labels import differing, distinguish_runs, varying
from analysis.tables.results import find_computed, require_one_way
from analysis.tables.spec import SettingDifference
from cse_train.config import complete
from cse_train.fields import ConfigError, Settings

SELECTION_RULE = "highest mean dev score over seeds"
SURFACE_RULE = "highest lower bound of the expected score"
"""Rule of `analysis.statistics.surface`: most cells of a search have one run, and the best of many is partly luck."""
LEAST_CELLS, MOST_CELLS = 6, 4000
"""Least number of finished cells, and largest number of runs, of a search that is ranked by SURFACE_RULE."""


@dataclass(frozen=True)
class CellRuns:
    """One cell of a sweep with its finished runs."""

    cell: Settings
    runs: tuple[RunRow, ...]
    apart: Mapping[str, str] = field(default_factory=dict)
    """Input -> hash, and the method's VERSION, where runs of one cell of the sweep differ in them."""
    lower_bound: float | None = None
    """Lower bound of the cell's expected score; None if cells are ranked by their means."""

    @property
    def scores(self) -> tuple[float, ...]:
        """Best dev scores, in the order of the runs."""
        return tuple(run.best for run in self.runs if run.best is not None)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.scores)

    @property
    def rank(self) -> float:
        """Number by which cells are ranked: the lower bound, else the mean."""
        return self.mean if self.lower_bound is None else self.lower_bound

    @property
    def rule(self) -> str:
        return SELECTION_RULE if self.lower_bound is None else SURFACE_RULE

    @property
    def best_run(self) -> RunRow:
        """Run with the highest dev score; in the picked cell its checkpoint is used."""
        return max(self.runs, key=lambda run: run.best or 0.0)

    @property
    def name(self) -> str:
        return " ".join(f"{key}={value}" for key, value in (*self.cell.items(), *self.apart.items()))


def require_finished(ledger: Ledger, sweep: str) -> list[CellRuns]:
    """Returns the ranked cells of a sweep (`rank_cells`). Raises ConfigError for a sweep without a finished run."""
    cells = rank_cells(ledger, sweep)
    if not cells:
        raise ConfigError([f"nothing finished: sweep={sweep} has no done run; let cse run go on"])
    return cells


def rank_cells(ledger: Ledger, sweep: str) -> list[CellRuns]:
    """Returns cells with finished runs, the best first: a search's by the lower bound of the expected score, else by
    the mean.

    Runs of a cell on other data, or by another VERSION of its method, are a row of their own; then means decide. Raises
    TableError where one `train.precision` came to several.
    """
    finished_runs = [run for run in ledger.runs(sweep=sweep, states=[RunState.DONE]) if run.best is not None]
    finished = {run.signature: run for run in add_versions(finished_runs)}
    require_one_way(find_computed(ledger, finished.values()), sweep)
    links = [link for link in ledger.cells(sweep) if link.signature in finished]
    labels = distinguish_runs(
        (link.signature, link.cell, link.seed, finished[link.signature].identity) for link in links
    )
    by_cell: dict[str, tuple[Settings, dict[str, RunRow]]] = {}
    for link in links:
        row = json.dumps([link.cell, labels.get(link.signature, {})], sort_keys=True)
        by_cell.setdefault(row, (link.cell, {}))[1][link.signature] = finished[link.signature]
    spec = ledger.sweep_spec(sweep)
    cells = [cell for cell, _ in by_cell.values()]
    if spec.imported is not None:  # such cells list every setting of their tool
        axes = varying(cells, list(dict.fromkeys(itertools.chain(*cells))))
        cells = [{axis: cell[axis] for axis in axes if axis in cell} for cell in cells]
    rows = [
        CellRuns(cell, tuple(runs.values()), labels.get(next(iter(runs)), {}))
        for cell, (_, runs) in zip(cells, by_cell.values(), strict=True)
    ]
    if spec.asked is not None and len(rows) >= LEAST_CELLS and not labels and len(links) <= MOST_CELLS:
        stopped = {run.signature: run.best for run in ledger.runs(sweep=sweep, states=[RunState.STOPPED])}
        rows = _add_bounds(
            rows,
            [(link.cell, best) for link in ledger.cells(sweep) if (best := stopped.get(link.signature)) is not None],
        )
    return sorted(rows, key=lambda row: -row.rank)


def _add_bounds(rows: Sequence[CellRuns], stopped: Sequence[tuple[Settings, float]]) -> list[CellRuns]:
    """Returns the rows with the lower bound of each cell's expected score; all runs of a cell have the same bound."""
    observations = [(row.cell, score) for row in rows for score in row.scores] + list(stopped)
    bounds = surface.lower_bounds(*zip(*observations, strict=True)).tolist()
    firsts = itertools.accumulate((len(row.scores) for row in rows[:-1]), initial=0)
    return [replace(row, lower_bound=bounds[first]) for row, first in zip(rows, firsts, strict=True)]


def find_cell_differences(cells: Sequence[CellRuns]) -> list[SettingDifference]:
    """Returns the settings other than their axes in which cells differ."""
    axes = {axis for cell in cells for axis in cell.cell}
    rows = [(cell.cell, complete({"method": cell.runs[0].method, **cell.runs[0].config})) for cell in cells]
    return differing(
        rows, {*axes, *SEED_SETTINGS, *({"method"} if any(IMPORTED in row.runs[0].identity for row in cells) else ())}
    )


@dataclass(frozen=True)
class HeldOutScores:
    """Scores of the picked run on test sets."""

    values: Mapping[str, float | None]
    """Column of a test set -> score of the picked run; NaN, in JSON null, where its cosines are all equal."""
    scored: tuple[str, ...]
    """Suites that were scored just now; the others were stored."""
    look: int
    """Number of different runs of the sweep that have been scored on one of these suites, the picked one included."""
    sweep: str = field(metadata=HIDDEN)

    @property
    def warning(self) -> str:
        """Warning that earlier selections looked at the test sets; empty for the first one."""
        if self.look < 2:
            return ""
        return (
            f"test looked at before: sweep={self.sweep}, this is selection number {self.look} scored on these sets; "
            "report the first, or say how many there were"
        )

    def lines(self) -> list[str]:
        """Returns the scores as lines for people."""
        source = f"scored now: {', '.join(self.scored)}" if self.scored else "stored, not scored again"
        empty = "no score, its cosines are all equal"
        values = (
            f"  {name} {empty if value is None or math.isnan(value) else f'{value:.2f}'}"
            for name, value in self.values.items()
        )
        return [f"test ({source}; look {self.look})", *values]
