"""Answer of `cse plan`: its JSON, and its text, one sentence for a single space, one line for each of several."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from analysis.answers.coverage import count_states, list_printed
from analysis.documents import OPTIONAL
from analysis.run_state import RunState
from analysis.tables.labels import number_of, some
from cluster.plan.cost import CARD_ENCODER, CARD_EXAMPLES_PER_SECOND, MOST_ON_A_CARD, Cost
from cluster.plan.plan import Plan, SpacePlan, counts
from cse.cli import screen
from cse.cli.listing import align_rows, duration, size
from cse.cli.loader import deferred
from cse_train.fields import Scalar
from search_spaces.identity.missing_inputs import IncompleteCell, group_by_reason

with deferred(__name__):
    from analysis.answers import judge, power
    from cse.experiments import tables

TITLE_WIDTH = 34
"""Characters of a space's title in the listing of plans."""
SPARE_PLAN_COLUMNS = ("disk", "examples", "unique", "kind", "title")
"""Columns of the listing of plans that a narrow terminal leaves out, the first first."""
SEEN_NAMED = 3
"""Finished runs that are named when a plan has nothing left to train."""
EIGHT = 8
"""GPUs of a usual node."""
NAME_DIGITS = 12
"""Hexadecimal digits shown of a signature."""
INPUTS_NAMED = 3
"""Cells that a line on one missing input names, in a plan of several tables."""


@dataclass(frozen=True)
class PlannedCost:
    """Cost of the runs that are left to train."""

    examples: int
    seconds: float | None
    """Seconds on this machine; null where the cost is unknown."""
    card_seconds: float | None
    """Seconds on one GPU, at the rates that the text of the plan names."""
    disk_bytes: int


@dataclass(frozen=True)
class LackingCell:
    """A cell that lacks an input, and the reason."""

    cell: str
    reason: str


@dataclass(frozen=True)
class SeenCell:
    """A cell with finished runs."""

    cell: Mapping[str, Scalar]
    signatures: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Planned:
    """Counts and costs of tables, or of searches; unique = done + to_run + missing_input."""

    cells: int
    seeds: int
    runs: int
    unique: int
    done: int
    to_run: int
    missing_input: int
    examples: int
    seconds: float | None
    card_seconds: float | None
    disk_bytes: int
    here: PlannedCost
    """Cost without the runs that lack an input."""
    incomplete_cells: Sequence[LackingCell] | None = field(default=None, metadata=OPTIONAL)
    seen: Sequence[SeenCell] | None = field(default=None, metadata=OPTIONAL)


@dataclass(frozen=True, kw_only=True)
class _Named:
    id: str
    kind: str


@dataclass(frozen=True, kw_only=True)
class PlannedSpace(Planned, _Named):
    """One table or search."""


@dataclass(frozen=True, kw_only=True)
class PlanAnswer(Planned):
    """Counts and costs of all tables together, or of all searches where there are no tables, and of each."""

    spaces: Sequence[PlannedSpace]
    searches: Sequence[PlannedSpace]
    throughput: str
    """Rates by which times are estimated."""
    absent: Sequence[str] = field(default=(), metadata=OPTIONAL)
    """Inputs assumed to be present because no data were given."""
    changed_code: Sequence[str] = field(default=(), metadata=OPTIONAL)
    not_reused: Sequence[str] = field(default=(), metadata=OPTIONAL)
    published: Mapping[str, int]
    """State -> how many of the papers' printed numbers are in it."""
    until_decided: "Mapping[str, tables.ExpectedRuns]" = field(default_factory=dict, metadata=OPTIONAL)
    """Space -> runs expected until all of its rows are decided."""
    decide: "power.Power | None" = field(default=None, metadata=OPTIONAL)
    """Smallest gains that the runs can find, for several numbers of candidates."""


def describe(
    plan: Plan, expected: "Mapping[str, tables.ExpectedRuns]" = MappingProxyType({}), found: "power.Power | None" = None
) -> PlanAnswer:
    """Returns a plan's totals, each table and each search; `expected`: space ID -> runs until it is decided; `found`:
    what the runs can find."""
    described = [(s, PlannedSpace(id=s.id, kind=s.kind, **vars(_describe(plan, [s])))) for s in plan.spaces]
    return PlanAnswer(
        **vars(_describe(plan, plan.tables or plan.searches)),
        spaces=[each for space, each in described if not space.is_search],
        searches=[each for space, each in described if space.is_search],
        throughput=plan.source(),
        absent=plan.absent,
        changed_code=tuple(plan.changed()),
        not_reused=tuple(plan.stale()),
        published=count_published(plan),
        until_decided=dict(expected),
        decide=found,
    )


def _describe(plan: Plan, spaces: Sequence[SpacePlan]) -> Planned:
    one = spaces[0] if len(spaces) == 1 else None
    return Planned(
        **counts(spaces),
        **vars(_price(plan, plan.cost(spaces))),
        here=_price(plan, plan.cost(spaces, incomplete=False)),
        incomplete_cells=[LackingCell(cell.label, cell.reason) for cell in one.incomplete] if one else None,
        seen=[SeenCell(cell, names) for cell, names in one.list_seen()] if one and not plan.absent else None,
    )


def _price(plan: Plan, cost: Cost) -> PlannedCost:
    seconds = None if cost.unknown else round(plan.rates.wall(cost), 1)
    card_seconds = round(cost.card_seconds, 1) if cost.card_seconds and not cost.unknown else None
    return PlannedCost(cost.examples, seconds, card_seconds, cost.disk_bytes)


def text(plan: Plan) -> str:
    """Returns a plan as text: its size, what is left to train, what cells lack, and the cost."""
    if len(plan.spaces) == 1:
        listing, missing_inputs = [], group_by_reason(_incomplete(plan.spaces[0]))
    else:
        listing = [align_rows([_line(plan, space) for space in plan.spaces], SPARE_PLAN_COLUMNS), ""]
        cells = [(space.id, cell) for space in plan.spaces for cell in _incomplete(space)]
        missing_inputs = group_by_reason(
            [replace(cell, label=f"{table} {cell.label}") for table, cell in cells], INPUTS_NAMED
        )
    missing_inputs += [*plan.changed(), *plan.stale()]
    missing_inputs += [f"not scored: {suite}: {why}" for suite, why in plan.unscorable.items()]
    (_, total), *states = count_published(plan).items()
    counts_text = ", ".join(f"{number} {state}" for state, number in states if number)
    published = [f"published numbers: {total}, of them {counts_text}"] if total else []
    lines = [*_totals(plan), *_tell_seen(plan), *published, *missing_inputs, plan.source()]
    return "\n".join([*listing, *(screen.prose(line, indent="  ") for line in lines)])


def _tell_seen(plan: Plan) -> list[str]:
    """Returns a line that names finished runs, if the plan has one space and nothing to train; else an empty list."""
    names = sorted(set().union(*(space.done for space in plan.spaces)))
    if len(plan.spaces) > 1 or not names or plan.counts()["to_run"]:
        return []
    if plan.absent:  # recognised by settings, not by signatures
        return [f"seen: nothing is new, the ledger has {number_of(len(names), 'such run')}"]
    return [f"seen: nothing is new, the ledger has run {some([name[:NAME_DIGITS] for name in names], SEEN_NAMED)}"]


def tell_until_decided(plan: Plan, expected: "Mapping[str, tables.ExpectedRuns]", terms: "judge.Terms") -> list[str]:
    """Returns a line for each table on the cost of `--until decided`; `expected`: space ID -> expected runs."""
    lines = []
    for space in plan.tables:
        if (runs := expected.get(space.id)) is not None:
            each = plan.rates.wall(plan.cost([replace(space, done=frozenset())])) / max(1, len(space.runs))
            at = ", ".join(map(str, terms.looks or ()))
            basis = "the seeds of this ledger" if runs.ours else "the paper's differences and seeds of a point each"
            lines.append(
                f"{space.id} until decided, with looks at {at} seeds: about {runs.runs:.0f} runs, "
                f"{duration(each * runs.runs)}, by {basis}; at least {runs.least}, at most {runs.most}"
            )
    return lines


def _incomplete(space: SpacePlan) -> list[IncompleteCell]:
    """Returns cells without an input, and rows of the paper whose untrained models lack an input."""
    return [*space.incomplete, *(IncompleteCell({}, label, (reason,)) for label, reason in space.unevaluated.items())]


def count_published(plan: Plan) -> dict[str, int]:
    """Returns state, such as compared or lacking an input -> how many of the papers' printed numbers are in
    that state."""
    absent = [{cell.label: cell.reason for cell in space.incomplete} for space in plan.spaces]
    pairs = zip(plan.spaces, absent, strict=True)
    return count_states(
        value
        for space, reasons in pairs
        for value in list_printed(space.resolved, reasons, plan.unscorable, space.unevaluated)
    )


def _line(plan: Plan, space: SpacePlan) -> dict[str, object]:
    totals, cost = counts([space]), plan.cost([space])
    title = space.resolved.space.title
    return {
        "id": space.id,
        "title": textwrap.shorten(title, TITLE_WIDTH, placeholder=" …"),
        "kind": space.kind,
        **{name: totals[name] for name in ("cells", "runs", "unique", RunState.DONE)},
        "missing input": totals["missing_input"],
        "to_run": totals["to_run"],
        "examples": cost.examples,
        "time": duration(None if cost.unknown else plan.rates.wall(cost)),
        "disk": size(cost.disk_bytes),
    }


def product(totals: Mapping[str, int]) -> str:
    """Returns `4 cells x 3 seeds = 12 runs` for a plan's totals."""
    cells, seeds, runs = (number_of(totals[f"{noun}s"], noun) for noun in ("cell", "seed", "run"))
    return f"{cells} x {seeds} = {runs}"


def _totals(plan: Plan) -> list[str]:
    """Returns the sentence and the cost of all tables together, then of all searches together."""
    groups = [("", plan.tables), ("searches, at most: ", plan.searches)]
    lines = []
    for prefix, spaces in groups:
        if spaces:
            totals = counts(spaces)
            incomplete = totals["missing_input"]
            more = f", {incomplete} lack{'s' if incomplete == 1 else ''} an input" if incomplete else ""
            size = f"{number_of(totals['cells'], 'cell')}, {number_of(totals['runs'], 'run')}"
            sentence_start = product(totals) if len(spaces) == 1 else size
            unique = f"{totals['unique']} unique" + (f" ({_tell_shared(totals)})" if len(spaces) > 1 else "")
            sentence = f"{sentence_start}, {unique}: {totals[RunState.DONE]} done, {totals['to_run']} to run"
            lines.append(f"{prefix if plan.tables else ''}{sentence}{more}")
            lines.append(_tell_left(plan, spaces))
            lines += _tell_cards(plan, spaces)
    training = [space for space in plan.tables if space.kind == "training"]
    if 1 < len(training) < len(plan.tables):
        totals = counts(training)
        lines.append(f"over training tables: {totals['runs']} runs, {totals['unique']} unique ({_tell_shared(totals)})")
    return lines


def _tell_shared(counts: dict[str, int]) -> str:
    """Returns the share of runs that tables have in common, such as `25.0% shared`."""
    return f"{1 - counts['unique'] / max(1, counts['runs']):.1%} shared"


def _tell_cards(plan: Plan, spaces: list[SpacePlan]) -> list[str]:
    """Returns a line on the time left on one and on eight GPUs, with the assumed rates; none if the cost is unknown."""
    cost, totals = plan.cost(spaces), counts(spaces)
    runs = totals["to_run"] + totals["missing_input"]
    if cost.unknown or not cost.card_seconds:
        return []
    times = [duration(cost.card_seconds / min(cards, max(1, runs))) for cards in (1, EIGHT)]
    by = " and ".join(f"{rate} in {precision}" for precision, rate in CARD_EXAMPLES_PER_SECOND.items())
    line = (
        f"on one card about {times[0]}, on eight {times[1]}, a run a card, by the examples per second of SimCSE alone"
    )
    return [f"{line} on an H100 at the size of {CARD_ENCODER}: {by}; at most {MOST_ON_A_CARD}"]


def _tell_left(plan: Plan, spaces: list[SpacePlan]) -> str:
    """Returns a line on the cost of unfinished runs; if it differs, also on the cost of runs that lack no input."""
    total, feasible = plan.cost(spaces), plan.cost(spaces, incomplete=False)
    costs = [total] if total == feasible else [total, feasible]
    shows_examples = not all(space.resolved.own_loop for space in spaces)
    times = [duration(None if cost.unknown else plan.rates.wall(cost)) for cost in costs]
    texts = [
        f"{cost.examples} examples, {time}, {size(cost.disk_bytes)} on disk" if shows_examples else time
        for cost, time in zip(costs, times, strict=True)
    ]
    return "left: " + "; without what lacks an input: ".join(texts)
