"""Undecided rows of a table, the plan of seeds that rows have so far, and the runs to expect until all are decided."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from analysis.answers import build
from analysis.answers.judge import Terms, judge, reference_row
from analysis.answers.paper_scale import unlike_paper
from analysis.ledger import Ledger
from analysis.matching import match
from analysis.study.expected_seeds import seeds_until_decided
from analysis.tables.results import Planned, drop_part
from analysis.tables.spec import Key, identify
from cluster.plan.plan import SpacePlan
from search_spaces.cells import full_key

RowId = tuple[object, ...]


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


def row_of(plan: SpacePlan, cell: Key) -> RowId:
    """Returns the row of the table to which a cell's runs belong."""
    return identify(drop_part(full_key(plan.resolved, cell)))


def take_seeds(plan: SpacePlan, seeds: Mapping[RowId, int]) -> SpacePlan:
    """Returns the plan with only the first seeds of each row; `seeds`: row -> how many."""
    runs = tuple(run for run in plan.runs if run.seed in plan.seeds[: seeds[row_of(plan, run.cell)]])
    names = frozenset(run.signature for run in runs)
    incomplete = [replace(cell, signatures=tuple(names.intersection(cell.signatures))) for cell in plan.incomplete]
    return replace(plan, runs=runs, done=plan.done & names, incomplete=tuple(c for c in incomplete if c.signatures))


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


def expect_cost(plan: SpacePlan, ledger: Ledger | None, terms: Terms) -> ExpectedRuns:
    """Estimates a table's runs until it is decided, from the ledger's seeds, else from the paper's values.

    All cells of a row get the row's seeds.
    """
    assert terms.looks is not None
    table = build.build_planned(plan.resolved, ledger, plan_rows(plan, plan.seeds, ledger) if ledger else [])
    per_row, from_ledger = seeds_until_decided(table, terms)
    seeds = {identify(row.key): count for row, count in zip(table.rows, per_row, strict=True)}
    cells = {repr(run.cell): run.cell for run in plan.runs}.values()
    runs = [seeds.get(row_of(plan, cell), float(terms.looks[0])) for cell in cells]
    return ExpectedRuns(terms.looks[0] * len(runs), round(sum(runs), 1), terms.looks[-1] * len(runs), from_ledger)


def plan_rows(plan: SpacePlan, seeds: Sequence[int], ledger: Ledger) -> list[Planned]:
    """Returns (row key, signature, seed) of the table's runs; for a search, of the runs that it has made."""
    resolved = plan.resolved
    if plan.is_search:
        return [matched.planned for matched in match(resolved, ledger.runs(), seeds)]
    return [(full_key(resolved, run.cell), run.signature, run.seed) for run in plan.runs]
