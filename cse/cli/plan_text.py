"""Text of `cse plan`: one sentence for a single space, one line for each of several."""

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
    from analysis.answers import judge
    from cse.experiments import undecided

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


def tell_until_decided(plan: Plan, expected: "Mapping[str, undecided.ExpectedRuns]", terms: "judge.Terms") -> list[str]:
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
