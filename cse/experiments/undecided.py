"""A table that gets seeds until its rows are decided: which rows are open, and the plan of what they have so far."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from analysis.answers import build
from analysis.answers.paper_scale import unlike_paper
from analysis.ledger import Ledger
from analysis.matching.match import match
from analysis.study.looks import seeds_until_decided
from analysis.tables.directions import Terms
from analysis.tables.results import Planned, drop_part
from analysis.tables.spec import Key, identify
from analysis.tables.verdict import judge, reference_row
from cluster.plan.plan import SpacePlan
from search_spaces.cells import full_key

RowId = tuple[object, ...]


@dataclass(frozen=True)
class Expected:
    """What a table will take until its rows are decided."""

    least: int
    """Runs of the first look."""
    runs: float
    """To be expected."""
    most: int
    """Runs if no row is decided."""
    ours: bool
    """Whether our seeds were asked, or only the paper's differences."""


def row_of(plan: SpacePlan, cell: Key) -> RowId:
    """The table's row that a cell's runs stand in."""
    return identify(drop_part(full_key(plan.resolved, cell)))


def take_seeds(plan: SpacePlan, seeds: Mapping[RowId, int]) -> SpacePlan:
    """The plan with so many of the first seeds for each row."""
    runs = tuple(run for run in plan.runs if run.seed in plan.seeds[: seeds[row_of(plan, run.cell)]])
    names = frozenset(run.signature for run in runs)
    lacking = [replace(cell, signatures=tuple(names.intersection(cell.signatures))) for cell in plan.incomplete]
    return replace(plan, runs=runs, done=plan.done & names, incomplete=tuple(c for c in lacking if c.signatures))


def open_rows(plan: SpacePlan, ledger: Ledger, terms: Terms) -> frozenset[RowId]:
    """The undecided rows of the table as the ledger has it, with the rows that they are compared with; none if none."""
    made = build.build_planned(plan.resolved, ledger, plan_rows(plan, plan.seeds, ledger), unevaluated=plan.unevaluated)
    verdicts = judge(made, same_scale=not unlike_paper(plan.resolved), terms=terms)
    rows = set[int]()
    for (row, column), verdict in verdicts.items():
        reference = reference_row(made, column)
        if verdict.word == "undecided" and reference is not None:
            rows |= {row, reference}
    return frozenset(identify(made.rows[row].key) for row in rows)


def expect_cost(plan: SpacePlan, ledger: Ledger | None, terms: Terms) -> Expected:
    """By what the ledger has of the table, else by the paper's values; a row's cells get its seeds."""
    assert terms.looks is not None
    made = build.build_planned(plan.resolved, ledger, plan_rows(plan, plan.seeds, ledger) if ledger else [])
    per_row, ours = seeds_until_decided(made, terms)
    seeds = {identify(row.key): count for row, count in zip(made.rows, per_row, strict=True)}
    cells = {repr(run.cell): run.cell for run in plan.runs}.values()
    runs = [seeds.get(row_of(plan, cell), float(terms.looks[0])) for cell in cells]
    return Expected(terms.looks[0] * len(runs), round(sum(runs), 1), terms.looks[-1] * len(runs), ours)


def plan_rows(plan: SpacePlan, seeds: Sequence[int], ledger: Ledger) -> list[Planned]:
    """(row key, signature, seed) of the table's runs; of a search, those that it has made."""
    resolved = plan.resolved
    if plan.is_search:
        return [matched.planned for matched in match(resolved, ledger.runs(), seeds)]
    return [(full_key(resolved, run.cell), run.signature, run.seed) for run in plan.runs]
