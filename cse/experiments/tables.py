"""Tables of a running sweep: each is printed as soon as its runs have ended, and rows get seeds until they are decided.

With interim analyses (`--until decided`), a table's next runs follow when its last ones have ended, while slots go on
with other tables' runs.
"""

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from analysis.answers import build
from analysis.answers.judge import Terms, judge, reference_row
from analysis.answers.paper_scale import unlike_paper
from analysis.ledger import Ledger
from analysis.matching import match
from analysis.run_state import RunState
from analysis.study.expected_seeds import seeds_until_decided
from analysis.tables.labels import number_of
from analysis.tables.results import Planned, drop_part
from analysis.tables.spec import Key, identify
from cluster.plan.plan import PlannedRun, SpacePlan
from cluster.plan.run_source import RunSource
from cluster.sweep.events import RUN_ENDS, EventKind, SweepEvent
from cse.experiments.request import Request, record
from search_spaces.cells import full_key, sweep_name

log = logging.getLogger(__name__)
RowId = tuple[object, ...]


class FinishedTables(ThreadPoolExecutor):
    """Event listener of `run_sweep` that hands out each table once its runs have ended; also a context manager.

    A crash days later then loses no finished table. Tables are made in a thread, one at a time. A table that cannot be
    made, or whose runs get scores afterwards, is in `missed`.
    """

    def __init__(self, runs: Sequence[Iterable[str]], give: Callable[[int], None]) -> None:
        """`runs`: signatures that each table waits for. `give`: prints and writes a table, by its index."""
        super().__init__(1, "tables")
        self._runs = [frozenset(signatures) for signatures in runs]
        self._left = [set(signatures) for signatures in self._runs]
        self._give, self._given = give, set[int]()

    def __call__(self, event: SweepEvent) -> None:
        if event.kind == EventKind.SCORED:
            self._given -= {place for place, runs in enumerate(self._runs) if event.signature in runs}
        elif event.kind in (EventKind.REUSED, *RUN_ENDS):
            for place, left in enumerate(self._left):
                if event.signature in left:
                    left.remove(event.signature)
                    if not left:
                        self.whole(place)

    def whole(self, place: int) -> None:
        """Hands out a table whose runs have ended, by its index."""
        self.submit(self._make, place)

    def missed(self) -> list[int]:
        """Returns indices of tables not handed out, or not with all scores; valid after the block has ended."""
        return [place for place in range(len(self._runs)) if place not in self._given]

    def _make(self, place: int) -> None:
        # Before the table is made: a score that comes meanwhile takes the place out again.
        self._given.add(place)
        try:
            self._give(place)
        except Exception:  # the caller makes the missed ones again, and reports the error
            self._given.discard(place)
            log.debug("table %d could not be made yet", place, exc_info=True)


def add_looks(request: Request, terms: Terms) -> Request:
    """Returns the request with terms for interim analyses, and as many seeds as the last of them needs.

    Seeds are the request's own from the lowest, then those above them. A search keeps the seeds of its space, and no
    interim analyses, since its sampler decides on the cells.
    """
    if terms.looks is None or request.resolved.space.search is not None:
        return replace(request, terms=replace(terms, looks=None))
    seeds = sorted(request.seeds)
    seeds += range(seeds[-1] + 1, seeds[-1] + 1 + terms.looks[-1])
    return replace(request, terms=terms, seeds=tuple(seeds[: terms.looks[-1]]))


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
        plan = self.plan
        runs = tuple(run for run in plan.runs if run.seed in plan.seeds[: self.seeds[row_of(plan, run.cell)]])
        names = frozenset(run.signature for run in runs)
        incomplete = [replace(cell, signatures=tuple(names.intersection(cell.signatures))) for cell in plan.incomplete]
        return replace(plan, runs=runs, done=plan.done & names, incomplete=tuple(c for c in incomplete if c.signatures))

    def next_runs(self, ledger: Ledger) -> list[PlannedRun]:
        """Analyses the table, and returns the runs that its undecided rows lack until the next interim analysis; [] at
        the end. Runs are recorded under the table's sweep in the ledger."""
        looks = self.request.terms.looks or (len(self.plan.seeds),)
        reached = max(self.seeds.values(), default=0)
        next_look = next((look for look in looks if look > reached), None)
        if next_look is None:
            return []
        all_rows = {row_of(self.plan, run.cell) for run in self.plan.runs}
        recorded = {run.signature for run in self.now.runs} if self.seeds else set()
        open_ids = open_rows(self.now, ledger, self.request.terms) if self.seeds else all_rows
        self.seeds |= dict.fromkeys(open_ids & all_rows, next_look)
        now, sweep = self.now, sweep_name(self.request.resolved)
        excluded = now.incomplete_runs | recorded
        runs = [replace(run, sweep=sweep) for run in now.runs if run.signature not in excluded]
        if runs:
            record(self.request, ledger, runs, now.incomplete)
        return runs


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
        self.skip(planned)

    def skip(self, planned: PlannedRun) -> None:
        self._ended.add(planned.signature)

    def _look(self, place: int) -> None:
        """Analyses a table with no outstanding runs, until new runs are outstanding or it gets no more seeds."""
        table = self._tables[place]
        table.awaited -= self._ended
        while not table.awaited:
            runs = table.next_runs(self._ledger)
            if not runs:
                self._open.discard(place)
                self._whole(place, table.now)
                return
            new_runs = [run for run in runs if run.signature not in self._wanted | self._ended]
            self._wanted |= {run.signature for run in new_runs}
            self._left.extend(new_runs)
            self.totals.update(run.sweep for run in new_runs)
            table.awaited = {run.signature for run in runs} - self._ended


def open_rows(plan: SpacePlan, ledger: Ledger, terms: Terms) -> frozenset[RowId]:
    """Returns the table's undecided rows and the rows with which they are compared; empty where all are decided."""
    table = build.build_planned(
        plan.resolved, ledger, plan_rows(plan, plan.seeds, ledger), unevaluated=plan.unevaluated
    )
    verdicts = judge(table, same_scale=not unlike_paper(plan.resolved), terms=terms)
    rows = set[int]()
    for (row, column), verdict in verdicts.items():
        reference = reference_row(table, column)
        if verdict.word == "undecided" and reference is not None:
            rows |= {row, reference}
    return frozenset(identify(table.rows[row].key) for row in rows)


@dataclass(frozen=True)
class ExpectedRuns:
    """Number of runs that a table is expected to take until its rows are decided."""

    least: int
    """Number of runs until the first interim analysis."""
    runs: float
    """Expected number of runs until all rows are decided."""
    most: int
    """Number of runs if no row is decided early."""
    ours: bool
    """True if estimated from seeds in the ledger; False if only from the paper's differences."""


def expect_cost(plan: SpacePlan, ledger: Ledger | None, looks: Sequence[int], terms: Terms) -> ExpectedRuns:
    """Estimates a table's runs until it is decided, from the ledger's seeds, else from the paper's values.

    All cells of a row get the row's seeds. `looks`: seeds of each interim analysis.
    """
    table = build.build_planned(plan.resolved, ledger, plan_rows(plan, plan.seeds, ledger) if ledger else [])
    per_row, from_ledger = seeds_until_decided(table, terms)
    seeds = {identify(row.key): count for row, count in zip(table.rows, per_row, strict=True)}
    cells = {repr(run.cell): run.cell for run in plan.runs}.values()
    runs = [seeds.get(row_of(plan, cell), float(looks[0])) for cell in cells]
    return ExpectedRuns(looks[0] * len(runs), round(sum(runs), 1), looks[-1] * len(runs), from_ledger)


def row_of(plan: SpacePlan, cell: Key) -> RowId:
    """Returns the row of the table to which a cell's runs belong."""
    return identify(drop_part(full_key(plan.resolved, cell)))


def plan_rows(plan: SpacePlan, seeds: Sequence[int], ledger: Ledger) -> list[Planned]:
    """Returns (row key, signature, seed) of the table's runs; for a search, of the runs that it has made."""
    if plan.is_search:
        return [matched.planned for matched in match(plan.resolved, ledger.runs(), seeds)]
    return [(full_key(plan.resolved, run.cell), run.signature, run.seed) for run in plan.runs]
