"""A plan as text: one sentence for one space, a line for each of many."""

import textwrap
from collections.abc import Mapping
from dataclasses import replace

from analysis.answers.coverage import count_states, list_printed
from analysis.run_state import RunState
from analysis.tables.labels import number_of, some
from cluster.plan.cost import CARD_ENCODER, CARD_EXAMPLES_PER_SECOND, MOST_ON_A_CARD
from cluster.plan.plan import Plan, SpacePlan, counts
from cse.cli import screen
from cse.cli.listing import align_rows, duration, size
from cse.cli.loader import deferred
from search_spaces.identity.missing_inputs import IncompleteCell, group_by_reason

with deferred(__name__):
    from analysis.tables import directions
    from cse.experiments import undecided

TITLE_WIDTH = 34
"""Characters of a title in the listing."""
SPARE_PLAN_COLUMNS = ("disk", "examples", "unique", "kind", "title")
"""Columns that a narrow terminal goes without, the first first."""
SEEN_NAMED = 3
"""Finished runs of a plan without any other that are named."""
EIGHT = 8
"""Cards of a usual node."""
NAME_DIGITS = 12
"""Hexadecimal digits shown of a signature."""
INPUTS_NAMED = 3
"""Cells of many tables that one reason names."""


def text(plan: Plan) -> str:
    """The sentence of one space, or a line for each of many; then what is left, what cells lack, and the cost."""
    if len(plan.spaces) == 1:
        listing, lacking = [], group_by_reason(_incomplete(plan.spaces[0]))
    else:
        listing = [align_rows([_line(plan, space) for space in plan.spaces], SPARE_PLAN_COLUMNS), ""]
        named = [(space.id, cell) for space in plan.spaces for cell in _incomplete(space)]
        lacking = group_by_reason([replace(cell, label=f"{table} {cell.label}") for table, cell in named], INPUTS_NAMED)
    lacking += [*plan.changed(), *plan.stale()]
    lacking += [f"not scored: {suite}: {why}" for suite, why in plan.unscorable.items()]
    (_, total), *states = count_published(plan).items()
    shown = ", ".join(f"{number} {state}" for state, number in states if number)
    published = [f"published numbers: {total}, of them {shown}"] if total else []
    said = [*_totals(plan), *_tell_seen(plan), *published, *lacking, plan.source()]
    return "\n".join([*listing, *(screen.prose(line, indent="  ") for line in said)])


def _tell_seen(plan: Plan) -> list[str]:
    """A line where one space asks for nothing new."""
    names = sorted(set().union(*(space.done for space in plan.spaces)))
    if len(plan.spaces) > 1 or not names or plan.counts()["to_run"]:
        return []
    if plan.absent:  # recognised by settings, not by signatures
        return [f"seen: nothing is new, the ledger has {number_of(len(names), 'such run')}"]
    return [f"seen: nothing is new, the ledger has run {some([name[:NAME_DIGITS] for name in names], SEEN_NAMED)}"]


def tell_until_decided(
    plan: Plan, expected: "Mapping[str, undecided.Expected]", terms: "directions.Terms"
) -> list[str]:
    """A line for each table on what `--until decided` takes of it; `expected`: ID -> the runs to be expected."""
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
    """Cells without an input, and rows of the paper whose models, scored without training, lack one."""
    return [*space.incomplete, *(IncompleteCell({}, label, (why,)) for label, why in space.unevaluated.items())]


def count_published(plan: Plan) -> dict[str, int]:
    """How many of the numbers that the papers print are compared with ours, and what the others are."""
    absent = [{cell.label: cell.reason for cell in space.incomplete} for space in plan.spaces]
    both = zip(plan.spaces, absent, strict=True)
    return count_states(
        value
        for space, lacks in both
        for value in list_printed(space.resolved, lacks, plan.unscorable, space.unevaluated)
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
    """Cells by seeds."""
    cells, seeds, runs = (number_of(totals[f"{noun}s"], noun) for noun in ("cell", "seed", "run"))
    return f"{cells} x {seeds} = {runs}"


def _totals(plan: Plan) -> list[str]:
    """The sentence and the cost of the tables together, then of the searches."""
    groups = [("", plan.tables), ("searches, at most: ", plan.searches)]
    lines = []
    for what, spaces in groups:
        if spaces:
            totals = counts(spaces)
            lacking = totals["missing_input"]
            more = f", {lacking} lack{'s' if lacking == 1 else ''} an input" if lacking else ""
            many = f"{number_of(totals['cells'], 'cell')}, {number_of(totals['runs'], 'run')}"
            each = product(totals) if len(spaces) == 1 else many
            unique = f"{totals['unique']} unique" + (f" ({_tell_shared(totals)})" if len(spaces) > 1 else "")
            sentence = f"{each}, {unique}: {totals[RunState.DONE]} done, {totals['to_run']} to run"
            lines.append(f"{what if plan.tables else ''}{sentence}{more}")
            lines.append(_tell_left(plan, spaces))
            lines += _tell_cards(plan, spaces)
    training = [space for space in plan.tables if space.kind == "training"]
    if 1 < len(training) < len(plan.tables):
        totals = counts(training)
        lines.append(f"over training tables: {totals['runs']} runs, {totals['unique']} unique ({_tell_shared(totals)})")
    return lines


def _tell_shared(counts: dict[str, int]) -> str:
    """The part of the runs that sharing saves."""
    return f"{1 - counts['unique'] / max(1, counts['runs']):.1%} shared"


def _tell_cards(plan: Plan, spaces: list[SpacePlan]) -> list[str]:
    """What is left on one card and on eight, what lacks an input here with it, and by which rates."""
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
    """Cost of what is not done, and of the part of it that lacks no input."""
    every, here = plan.cost(spaces), plan.cost(spaces, incomplete=False)
    both = [every] if every == here else [every, here]
    ours = not all(space.resolved.own_loop for space in spaces)
    times = [duration(None if cost.unknown else plan.rates.wall(cost)) for cost in both]
    shown = [
        f"{cost.examples} examples, {time}, {size(cost.disk_bytes)} on disk" if ours else time
        for cost, time in zip(both, times, strict=True)
    ]
    return "left: " + "; without what lacks an input: ".join(shown)
