"""Runs of one cell that differ in their inputs or their code: told apart wherever runs are listed or averaged."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

DIGITS = 8
"""Hexadecimal digits shown of a content hash."""
LENGTH = "examples"
"""The input that follows from the corpus."""

Run = tuple[str, Mapping[str, Any], int, Mapping[str, Any]]
"""Signature, cell, seed, identity."""


def told_apart(runs: Iterable[Run]) -> dict[str, dict[str, str]]:
    """Signature -> {input: beginning of its hash}, of the inputs in which runs of one cell differ somewhere.

    Where cell, seed and inputs are all alike the code was another one; `run` is then the beginning of the signature.
    """
    rows = [(name, repr(sorted(cell.items())), seed, inputs) for name, cell, seed, inputs in runs]
    parts = sorted({part for *_, inputs in rows for part in inputs} - {LENGTH})
    values: dict[tuple[str, str], set[str]] = defaultdict(set)
    signatures: dict[tuple[str, int, frozenset[tuple[str, str]]], set[str]] = defaultdict(set)
    for name, cell, seed, inputs in rows:
        signatures[cell, seed, frozenset((part, str(value)) for part, value in inputs.items())].add(name)
        for part in parts:
            values[part, cell].add(str(inputs.get(part, "")))
    differing = list(dict.fromkeys(part for (part, _), several in values.items() if len(several) > 1))
    other_code = any(len(several) > 1 for several in signatures.values())
    return {
        name: {part: str(inputs.get(part, ""))[:DIGITS] for part in differing}
        | ({"run": name[:DIGITS]} if other_code else {})
        for name, _, _, inputs in rows
    }
