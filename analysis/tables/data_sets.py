"""Tells apart runs of one cell that differ in inputs or code, wherever runs are listed or averaged."""

from collections import defaultdict
from collections.abc import Iterable

from cse_train.results import Settings

DATA_DIGITS = 8
"""Number of hexadecimal digits of a content hash in messages."""
LENGTH = "examples"
"""Input that follows from the corpus: the number of its examples."""

Run = tuple[str, Settings, int, Settings]
"""Signature, cell, seed and identity of a run."""


def tell_apart(runs: Iterable[Run]) -> dict[str, dict[str, str]]:
    """Returns signature -> {input: beginning of its hash}, for inputs in which runs of one cell differ; {} where none
    do.

    Runs with equal cell, seed and inputs differ in their code; `run` is then the beginning of the signature.
    """
    rows = list(runs)
    # Equal cells are mostly one object, and so are equal inputs: each is looked into once.
    cells = {at: repr(sorted(cell.items())) for at, cell in {id(cell): cell for _, cell, _, _ in rows}.items()}
    given = {id(inputs): inputs for *_, inputs in rows}
    whole = {at: frozenset((part, str(value)) for part, value in inputs.items()) for at, inputs in given.items()}
    if len(set(whole.values())) == 1 and len({(cells[id(cell)], seed) for _, cell, seed, _ in rows}) == len(rows):
        return {}
    parts = sorted({part for inputs in given.values() for part in inputs} - {LENGTH})
    values: dict[tuple[str, str], set[str]] = defaultdict(set)
    for text, at in {(cells[id(cell)], id(inputs)) for _, cell, _, inputs in rows}:
        for part in parts:
            values[part, text].add(str(given[at].get(part, "")))
    apart = {part for (part, _), several in values.items() if len(several) > 1}
    differing = [part for part in parts if part in apart]
    alike = {(cells[id(cell)], seed, whole[id(inputs)], name) for name, cell, seed, inputs in rows}
    other_code = len({run[:-1] for run in alike}) < len(alike)
    if not differing and not other_code:
        return {}
    return {
        name: {part: str(inputs.get(part, ""))[:DATA_DIGITS] for part in differing}
        | ({"run": name[:DATA_DIGITS]} if other_code else {})
        for name, _, _, inputs in rows
    }
