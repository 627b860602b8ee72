"""Distinguishes runs of one cell that differ in inputs or code, wherever runs are listed or averaged."""

from collections import defaultdict
from collections.abc import Iterable

from cse_train.results import Settings

DATA_DIGITS = 8
"""Number of hexadecimal digits of a content hash in messages."""
LENGTH = "examples"
"""Input that follows from the corpus: the number of its examples."""

Run = tuple[str, Settings, int, Settings]
"""Signature, cell, seed and identity of a run."""


def distinguish_runs(runs: Iterable[Run]) -> dict[str, dict[str, str]]:
    """Returns signature -> {input: beginning of its hash}, for inputs in which runs of one cell differ; {} where none
    do.

    Runs with equal cell, seed and inputs differ in their code; `run` is then the beginning of the signature.
    """
    rows = list(runs)
    # Equal cells are mostly one object, and so are equal inputs: each is looked into once.
    cells = {key: repr(sorted(cell.items())) for key, cell in {id(cell): cell for _, cell, _, _ in rows}.items()}
    inputs_by_id = {id(inputs): inputs for *_, inputs in rows}
    whole = {
        key: frozenset((part, str(value)) for part, value in inputs.items()) for key, inputs in inputs_by_id.items()
    }
    if len(set(whole.values())) == 1 and len({(cells[id(cell)], seed) for _, cell, seed, _ in rows}) == len(rows):
        return {}
    parts = sorted({part for inputs in inputs_by_id.values() for part in inputs} - {LENGTH})
    values: dict[tuple[str, str], set[str]] = defaultdict(set)
    for text, key in {(cells[id(cell)], id(inputs)) for _, cell, _, inputs in rows}:
        for part in parts:
            values[part, text].add(str(inputs_by_id[key].get(part, "")))
    differing_parts = {part for (part, _), several in values.items() if len(several) > 1}
    ordered_parts = [part for part in parts if part in differing_parts]
    distinct_runs = {(cells[id(cell)], seed, whole[id(inputs)], name) for name, cell, seed, inputs in rows}
    other_code = len({run[:-1] for run in distinct_runs}) < len(distinct_runs)
    if not ordered_parts and not other_code:
        return {}
    return {
        name: {part: str(inputs.get(part, ""))[:DATA_DIGITS] for part in ordered_parts}
        | ({"run": name[:DATA_DIGITS]} if other_code else {})
        for name, _, _, inputs in rows
    }
