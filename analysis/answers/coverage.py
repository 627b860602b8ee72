"""Lists every printed value of a paper's table, and why a sweep has no value to compare with it."""

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
"""States of a printed value, in the order of the columns of a listing."""
COUNTED_WORDS = (TRAINED, WITHOUT_TRAINING)
"""States of a printed value for which a reproduced value exists."""
NOT_OURS = "none of our methods trains it"
NO_SUITE = "no suite of the table scores the column"


NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class PrintedValue:
    """One number that a paper prints."""

    table: str
    row: str
    """Label of the row, or its axis values."""
    column: str
    state: str
    """State of the value, one of STATES."""
    reason: str = ""
    """Reason why the printed value has no reproduced counterpart; empty for a value that is compared."""


def list_printed(
    resolved: ResolvedSpace,
    lacking: Mapping[str, str] = NOTHING,
    unscorable: Mapping[str, str] = NOTHING,
    unevaluated: Mapping[str, str] = NOTHING,
) -> Iterator[PrintedValue]:
    """Yields every number that the space's paper prints.

    `lacking` is label of a cell -> the input that it lacks; `unscorable` is suite -> the input that it lacks;
    `unevaluated` is label of a row whose model is scored without training -> the input that it lacks.
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
            missing_input = scored.get(paper.stored(column))
            no_suite = paper.unscored.get(column, NO_SUITE) if missing_input is None else ""
            state, reason = _find_state(label is None, no_suite, lacking.get(label or "", missing_input or ""), TRAINED)
            yield PrintedValue(space.id, label or cell_name(row.key), column, state, reason)
    models = resolved.evaluated()
    for reference in paper.references:
        suites = paper.suites_of(reference, space.evaluate)
        for column in reference.cells:
            state, reason = REFERENCE_ALONE, reference.reason or NOT_OURS
            if reference.evaluated:
                no_suite = "" if column in suites else paper.unscored.get(column, NO_SUITE)
                lacks = unevaluated.get(reference.label, unscorable.get(suites.get(column, ""), ""))
                state, reason = _find_state(models[reference.label] is None, no_suite, lacks, WITHOUT_TRAINING)
            yield PrintedValue(space.id, reference.label, column, state, reason)


def count_states(values: Iterable[PrintedValue]) -> dict[str, int]:
    """Returns the number of values in each of STATES, and of all as `published`."""
    states = Counter(value.state for value in values)
    return {"published": states.total(), **{state: states[state] for state in STATES}}


def group_by_reason(values: Iterable[PrintedValue]) -> dict[tuple[str, str], list[PrintedValue]]:
    """Returns the printed values without a reproduced counterpart, by (state, reason), in the order of STATES."""
    groups: dict[tuple[str, str], list[PrintedValue]] = {}
    for value in sorted(values, key=lambda value: STATES.index(value.state)):
        if value.state not in COUNTED_WORDS:
            groups.setdefault((value.state, value.reason), []).append(value)
    return groups


def _label(resolved: ResolvedSpace, key: Key) -> str | None:
    """Returns the label of a row's cell; None if the profile leaves the cell out."""
    if resolved.size() is None:
        return cell_name(key) if resolved.contains(key) else None
    row_key = full_key(resolved, key)
    fitting = (cell for cell in resolved.rows() if full_key(resolved, cell.key) == row_key)
    return next((cell.label or cell_name(cell.key) for cell in fitting), None)


def _find_state(left_out: bool, unscored: str, missing_input: str, state: str) -> tuple[str, str]:
    """Returns the state of a printed value with the reason why it cannot be reproduced; without a reason, `state`."""
    if left_out:
        return LEFT_OUT, "the profile has no counterpart for a setting of the row"
    if unscored:
        return UNSCORED, unscored
    return (WITHOUT_INPUT, missing_input) if missing_input else (state, "")
