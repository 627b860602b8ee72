"""Interim analyses of tables: rows get more seeds until each is decided, while slots go on with other tables' runs."""

import dataclasses
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from analysis.answers.judge import Terms
from analysis.ledger import Ledger
from analysis.run_state import RunState
from analysis.tables.labels import number_of
from cluster.plan.plan import PlannedRun, SpacePlan
from cluster.plan.run_source import RunSource
from cse.experiments.request import Request, record
from cse.experiments.undecided import RowId, open_rows, row_of, take_seeds
from search_spaces.cells import sweep_name


def add_looks(request: Request, terms: Terms) -> Request:
    """Returns the request with terms for interim analyses, and as many seeds as the last of them needs.

    Seeds are the request's own from the lowest, then those above them. A search keeps the seeds of its space, and no
    interim analyses, since its sampler decides on the cells.
    """
    if terms.looks is None or request.resolved.space.search is not None:
        return dataclasses.replace(request, terms=dataclasses.replace(terms, looks=None))
    seeds = sorted(request.seeds)
    seeds += range(seeds[-1] + 1, seeds[-1] + 1 + terms.looks[-1])
    return dataclasses.replace(request, terms=terms, seeds=tuple(seeds[: terms.looks[-1]]))


@dataclass
class TableLooks:
    """State of one table between two interim analyses of its rows."""

    request: Request
    """Request for the table: its seeds are those of the last interim analysis, its terms plan all of them."""
    plan: SpacePlan
    """Plan with all seeds of every row."""
    seeds: dict[RowId, int] = field(default_factory=dict)
    """Row -> number of seeds that it has or is getting; empty before the first interim analysis."""
    awaited: set[str] = field(default_factory=set)
    """Signatures of the runs for which the next interim analysis waits."""

    @property
    def now(self) -> SpacePlan:
        """Returns the table's plan, restricted to the seeds that each row has so far."""
        return take_seeds(self.plan, self.seeds)

    def next_runs(self, ledger: Ledger) -> list[PlannedRun]:
        """Analyses the table, and returns the runs that its undecided rows lack until the next interim analysis; [] at
        the end."""
        looks = self.request.terms.looks or (len(self.plan.seeds),)
        all_rows = {row_of(self.plan, run.cell) for run in self.plan.runs}
        reached = max(self.seeds.values(), default=0)
        next_look = next((look for look in looks if look > reached), None)
        if next_look is None:
            return []
        recorded = {run.signature for run in self.now.runs} if self.seeds else set()
        open_ids = open_rows(self.now, ledger, self.request.terms) if self.seeds else all_rows
        self.seeds |= dict.fromkeys(open_ids & all_rows, next_look)
        excluded = self.now.incomplete_runs | recorded
        return [run for run in self.now.runs if run.signature not in excluded]


class LookSource(RunSource):
    """Source of runs for tables with interim analyses: a table's next runs follow when its last ones have ended."""

    def __init__(
        self,
        tables: Sequence[TableLooks],
        ledger: Ledger,
        whole: Callable[[int, SpacePlan], None],
        finished: Iterable[str] = (),
    ) -> None:
        """`whole`: called once for each table that gets no more seeds, with its index and the plan of its seeds.

        `finished`: signatures of runs that have ended and have all their scores in the ledger.
        """
        self.totals = Counter[str]()
        """Sweep -> number of its runs so far, without those that had ended before; grows."""
        self._tables, self._ledger, self._whole = tables, ledger, whole
        self._left: deque[PlannedRun] = deque()
        self._wanted, self._ended = set[str](), set(finished)
        self._open = set(range(len(tables)))
        for place in range(len(tables)):
            self._look(place)

    def ask(self) -> PlannedRun | None:
        for place in sorted(self._open):
            self._look(place)
        return self._left.popleft() if self._left else None

    @property
    def waiting(self) -> int:
        """Returns the number of runs that can be asked for now."""
        return len(self._left)

    def line(self, at_most: int) -> str:
        """Returns a line on the runs to train; `at_most` is their number if no row were decided early."""
        total = len({run.signature for table in self._tables for run in table.now.runs})
        if self.exhausted():
            return f"{total}/{total} already in the ledger, 0 run"
        recorded = f"{total - self.waiting} already in the ledger"
        return f"{number_of(total, 'run')} for the next look: {recorded}; at most {at_most} in all"

    def exhausted(self) -> bool:
        return not self._left and not self._open

    def observe(self, planned: PlannedRun, state: RunState, value: float | None, examples: int | None) -> None:
        self._end(planned)

    def skip(self, planned: PlannedRun) -> None:
        self._end(planned)

    def _end(self, planned: PlannedRun) -> None:
        self._ended.add(planned.signature)

    def _look(self, place: int) -> None:
        """Analyses a table with no outstanding runs, until new runs are outstanding or it gets no more seeds."""
        table = self._tables[place]
        table.awaited -= self._ended
        while not table.awaited:
            runs = self._record(table, table.next_runs(self._ledger))
            if not runs:
                self._open.discard(place)
                self._whole(place, table.now)
                return
            new_runs = [run for run in runs if run.signature not in self._wanted | self._ended]
            self._wanted |= {run.signature for run in new_runs}
            self._left.extend(new_runs)
            self.totals.update(run.sweep for run in new_runs)
            table.awaited = {run.signature for run in runs} - self._ended

    def _record(self, table: TableLooks, runs: Sequence[PlannedRun]) -> list[PlannedRun]:
        """Records runs under the table's sweep in the ledger; returns them with the sweep's name."""
        runs_of_sweep = [dataclasses.replace(run, sweep=sweep_name(table.request.resolved)) for run in runs]
        if runs_of_sweep:
            record(table.request, self._ledger, runs_of_sweep, table.now.incomplete)
        return runs_of_sweep
