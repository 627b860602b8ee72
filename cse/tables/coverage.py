"""Which published numbers a sweep can be compared with: every printed value of a table, and why it has none of ours."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from cse_train.evaluate.suites import registry
from search_spaces.cell_names import cell_name
from search_spaces.cells import Key, ResolvedSpace, full_key, setups
from search_spaces.paper import Reference

TRAINED, LACKING, LEFT_OUT, EVALUATED, UNSCORED, REFERENCE = (
    "trained and scored",
    "without an input",
    "left out",
    "evaluation only",
    "without a suite",
    "reference",
)
STATES = (TRAINED, LACKING, LEFT_OUT, EVALUATED, UNSCORED, REFERENCE)
"""In the order of the columns of a listing; only the first is compared with runs of ours."""
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
    """Why it stands beside no run of ours; empty for a value that is trained and scored."""


def printed_values(
    resolved: ResolvedSpace, lacking: Mapping[str, str] = NOTHING, unscorable: Mapping[str, str] = NOTHING
) -> Iterator[PrintedValue]:
    """Every number that the space's paper prints.

    `lacking`: a cell that lacks an input, by its label, and what it lacks; `unscorable`: the same of a suite.
    """
    space = resolved.space
    if space.paper is None:
        return
    named = space.paper.scores
    scored = {column: unscorable.get(suite, "") for suite in space.evaluate for column in registry.columns(suite)}
    if space.paper.rows:
        scored |= {str(setup["train.dev"]): "" for setup in setups(resolved)}
    for row in space.paper.rows:
        label = _label(resolved, row.key)
        for column in row.cells:
            absent = scored.get(named.get(column, column))
            state, reason = _of_cell(label, absent is not None, lacking.get(label or "", absent or ""))
            yield PrintedValue(space.id, label or cell_name(row.key), column, state, reason)
    columns = {column for suite in registry.names() for column in registry.columns(suite)}
    for reference in space.paper.references:
        for column in reference.cells:
            state, reason = _of_reference(reference, named.get(column, column) in columns)
            yield PrintedValue(space.id, reference.label, column, state, reason)


def counted(values: Iterable[PrintedValue]) -> dict[str, int]:
    """How many values are in each of STATES, and `published` in all."""
    states = Counter(value.state for value in values)
    return {"published": states.total(), **{state: states[state] for state in STATES}}


def by_reason(values: Iterable[PrintedValue]) -> dict[tuple[str, str], list[PrintedValue]]:
    """The values that stand beside no run of ours, by (state, reason), in the order of STATES."""
    groups: dict[tuple[str, str], list[PrintedValue]] = {}
    for value in sorted(values, key=lambda value: STATES.index(value.state)):
        if value.state != TRAINED:
            groups.setdefault((value.state, value.reason), []).append(value)
    return groups


def _label(resolved: ResolvedSpace, key: Key) -> str | None:
    """What the row's cell is called; None where the profile leaves it out."""
    if resolved.size() is None:
        return cell_name(key) if resolved.contains(key) else None
    wanted = full_key(resolved, key)
    fitting = (cell for cell in resolved.rows() if full_key(resolved, cell.key) == wanted)
    return next((cell.label or cell_name(cell.key) for cell in fitting), None)


def _of_cell(label: str | None, scored: bool, lacking: str) -> tuple[str, str]:
    if label is None:
        return LEFT_OUT, "the profile has no counterpart for a setting of the row"
    if not scored:
        return UNSCORED, NO_SUITE
    return (LACKING, lacking) if lacking else (TRAINED, "")


def _of_reference(row: Reference, scored: bool) -> tuple[str, str]:
    if not row.evaluated:
        return REFERENCE, row.reason or NOT_OURS
    return (EVALUATED, f"not trained: ours is {row.evaluated}") if scored else (UNSCORED, NO_SUITE)
