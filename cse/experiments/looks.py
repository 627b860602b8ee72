"""Tables whose rows get seeds until each is decided, as a source of runs: slots go on while one table is looked at."""

import dataclasses
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from analysis.ledger import Ledger
from analysis.run_state import RunState
from analysis.tables.directions import Terms
from analysis.tables.labels import number_of
from cluster.plan.plan import PlannedRun, SpacePlan
from cluster.plan.run_source import RunSource
from cse.experiments.request import Request, record
from cse.experiments.undecided import RowId, open_rows, row_of, take_seeds
from search_spaces.cells import sweep_name


def add_looks(request: Request, terms: Terms) -> Request:
    """The request on these terms, with the seeds of their last look: its own from the lowest, then those above.

    A search gets the seeds that its space says, since its sampler decides on the cells.
    """
    if terms.looks is None or request.resolved.space.search is not None:
        return dataclasses.replace(request, terms=dataclasses.replace(terms, looks=None))
    seeds = sorted(request.seeds)
    seeds += range(seeds[-1] + 1, seeds[-1] + 1 + terms.looks[-1])
    return dataclasses.replace(request, terms=terms, seeds=tuple(seeds[: terms.looks[-1]]))


@dataclass
class TableLooks:
    """One table between two looks."""

    request: Request
    """Its seeds are those of the last look, its terms name the looks."""
    plan: SpacePlan
    """Of all seeds of every row."""
    seeds: dict[RowId, int] = field(default_factory=dict)
    """Row -> the seeds that it has or is getting; none before the first look."""
    awaited: set[str] = field(default_factory=set)
    """Signatures that the next look waits for."""

    @property
    def now(self) -> SpacePlan:
        """The plan of the seeds that rows have."""
        return take_seeds(self.plan, self.seeds)

    def next_runs(self, ledger: Ledger) -> list[PlannedRun]:
        """Looks at the table: what its open rows lack until the next look; nothing when there is none."""
        looks = self.request.terms.looks or (len(self.plan.seeds),)
        every = {row_of(self.plan, run.cell) for run in self.plan.runs}
        reached = max(self.seeds.values(), default=0)
        coming = next((look for look in looks if look > reached), None)
        if coming is None:
            return []
        before = {run.signature for run in self.now.runs} if self.seeds else set()
        more = open_rows(self.now, ledger, self.request.terms) if self.seeds else every
        self.seeds |= dict.fromkeys(more & every, coming)
        lacking = self.now.incomplete_runs | before
        return [run for run in self.now.runs if run.signature not in lacking]


class LookSource(RunSource):
    """The runs of every table's first look, then, as soon as a table's have ended, those of its next."""

    def __init__(
        self,
        tables: Sequence[TableLooks],
        ledger: Ledger,
        whole: Callable[[int, SpacePlan], None],
        finished: Iterable[str] = (),
    ) -> None:
        """`whole`: called once for each table, by its place, that gets no more seeds, with the plan of what it got.

        `finished`: signatures of runs that have ended, all their scores in the ledger.
        """
        self.totals = Counter[str]()
        """Sweep -> its runs so far but those of `finished`; grows."""
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
        """Runs that can be asked for now."""
        return len(self._left)

    def line(self, at_most: int) -> str:
        """What there is to do; `at_most`: the runs of all tables if no row were decided."""
        so_far = len({run.signature for table in self._tables for run in table.now.runs})
        if self.exhausted():
            return f"{so_far}/{so_far} already in the ledger, 0 run"
        there = f"{so_far - self.waiting} already in the ledger"
        return f"{number_of(so_far, 'run')} for the next look: {there}; at most {at_most} in all"

    def exhausted(self) -> bool:
        return not self._left and not self._open

    def observe(self, planned: PlannedRun, state: RunState, value: float | None, examples: int | None) -> None:
        self._end(planned)

    def skip(self, planned: PlannedRun) -> None:
        self._end(planned)

    def _end(self, planned: PlannedRun) -> None:
        self._ended.add(planned.signature)

    def _look(self, place: int) -> None:
        """Go on with a table none of whose runs are awaited, until it awaits one or gets no more seeds."""
        table = self._tables[place]
        table.awaited -= self._ended
        while not table.awaited:
            runs = self._record(table, table.next_runs(self._ledger))
            if not runs:
                self._open.discard(place)
                self._whole(place, table.now)
                return
            fresh = [run for run in runs if run.signature not in self._wanted | self._ended]
            self._wanted |= {run.signature for run in fresh}
            self._left.extend(fresh)
            self.totals.update(run.sweep for run in fresh)
            table.awaited = {run.signature for run in runs} - self._ended

    def _record(self, table: TableLooks, runs: Sequence[PlannedRun]) -> list[PlannedRun]:
        """The runs as those of the table's sweep, which the ledger then knows."""
        named = [dataclasses.replace(run, sweep=sweep_name(table.request.resolved)) for run in runs]
        if named:
            record(table.request, self._ledger, named, table.now.incomplete)
        return named
