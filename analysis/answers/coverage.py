"""Which published numbers a sweep can be compared with: every printed value of a table, and why it has none of ours."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from cse_train.evaluate.suites import registry
from search_spaces.cell_names import cell_name
from search_spaces.cells import ResolvedSpace, full_key, setups
from search_spaces.paper import Key

TRAINED, WITHOUT_TRAINING, WITHOUT_INPUT, LEFT_OUT, UNSCORED, REFERENCE_ALONE = (
    "trained and scored",
    "scored without training",
    "without an input",
    "left out",
    "without a suite",
    "reference",
)
STATES = (TRAINED, WITHOUT_TRAINING, WITHOUT_INPUT, LEFT_OUT, UNSCORED, REFERENCE_ALONE)
"""In the order of the columns of a listing."""
COUNTED_WORDS = (TRAINED, WITHOUT_TRAINING)
"""Values that stand beside one of ours."""
NOT_OURS = "none of our methods trains it"
NO_SUITE = "no suite of the table scores the column"


NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class PrintedValue:
    """One number that a paper prints."""

    table: str
    row: str
    """The row's label, or its axis values."""
    column: str
    state: str
    """One of STATES."""
    reason: str = ""
    """Why it stands beside no value of ours; empty for one that is compared."""


def list_printed(
    resolved: ResolvedSpace,
    lacking: Mapping[str, str] = NOTHING,
    unscorable: Mapping[str, str] = NOTHING,
    unevaluated: Mapping[str, str] = NOTHING,
) -> Iterator[PrintedValue]:
    """Every number that the space's paper prints.

    `lacking`: a cell that lacks an input, by its label, and what it lacks; `unscorable`: the same of a suite, and
    `unevaluated` of a row whose model is scored without training.
    """
    space = resolved.space
    if space.paper is None:
        return
    paper = space.paper
    scored = {column: unscorable.get(suite, "") for suite in space.evaluate for column in registry.columns(suite)}
    if paper.rows:
        scored |= {str(setup["train.dev"]): "" for setup in setups(resolved)}
    for row in paper.rows:
        label = _label(resolved, row.key)
        for column in row.cells:
            absent = scored.get(paper.stored(column))
            why = paper.unscored.get(column, NO_SUITE) if absent is None else ""
            state, reason = _find_state(label is None, why, lacking.get(label or "", absent or ""), TRAINED)
            yield PrintedValue(space.id, label or cell_name(row.key), column, state, reason)
    models = resolved.evaluated()
    for reference in paper.references:
        suites = paper.suites_of(reference, space.evaluate)
        for column in reference.cells:
            state, reason = REFERENCE_ALONE, reference.reason or NOT_OURS
            if reference.evaluated:
                why = "" if column in suites else paper.unscored.get(column, NO_SUITE)
                lacks = unevaluated.get(reference.label, unscorable.get(suites.get(column, ""), ""))
                state, reason = _find_state(models[reference.label] is None, why, lacks, WITHOUT_TRAINING)
            yield PrintedValue(space.id, reference.label, column, state, reason)


def count_states(values: Iterable[PrintedValue]) -> dict[str, int]:
    """How many values are in each of STATES, and `published` in all."""
    states = Counter(value.state for value in values)
    return {"published": states.total(), **{state: states[state] for state in STATES}}


def group_by_reason(values: Iterable[PrintedValue]) -> dict[tuple[str, str], list[PrintedValue]]:
    """The values that stand beside none of ours, by (state, reason), in the order of STATES."""
    groups: dict[tuple[str, str], list[PrintedValue]] = {}
    for value in sorted(values, key=lambda value: STATES.index(value.state)):
        if value.state not in COUNTED_WORDS:
            groups.setdefault((value.state, value.reason), []).append(value)
    return groups


def _label(resolved: ResolvedSpace, key: Key) -> str | None:
    """What the row's cell is called; None where the profile leaves it out."""
    if resolved.size() is None:
        return cell_name(key) if resolved.contains(key) else None
    wanted = full_key(resolved, key)
    fitting = (cell for cell in resolved.rows() if full_key(resolved, cell.key) == wanted)
    return next((cell.label or cell_name(cell.key) for cell in fitting), None)


def _find_state(left_out: bool, unscored: str, lacking: str, state: str) -> tuple[str, str]:
    """The state of a value that could be ours, and why it is not; `state` is that of one which is."""
    if left_out:
        return LEFT_OUT, "the profile has no counterpart for a setting of the row"
    if unscored:
        return UNSCORED, unscored
    return (WITHOUT_INPUT, lacking) if lacking else (state, "")
