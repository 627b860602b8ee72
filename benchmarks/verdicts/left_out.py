"""Verdicts without every third seed, and what the seeds that were left out say of them.

    python -m benchmarks.verdicts.left_out docs/results/reproduced/*.json docs/results/reproduced/*/*.json

Of each page that holds every seed's value, the first, second or third of every three seeds is left out in turn, and the
rest is graded by today's rule. A direction is contradicted where the mean difference over the seeds that were left out
has the other sign, a tie where it is beyond the margin. Few seeds are a noisy judge.
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from analysis.tables.directions import Terms
from benchmarks.verdicts.regrade import DECIDED, graded

PARTS = 3


@dataclass(frozen=True)
class Judged:
    """One row against the reference without a part of the seeds."""

    word: str
    difference: float
    """Mean over the seeds that were left out."""
    said: float
    """Mean over the others."""

    def contradicted(self, margin: float) -> bool:
        return abs(self.difference) > margin if self.word == "tie" else self.said * self.difference < 0


def judged(page: Mapping[str, Any], terms: Terms) -> Iterator[Judged]:
    """Every decided verdict of the page without each part of the seeds."""
    for part in range(PARTS):
        kept = {**page, "rows": [_of(row, part, kept=True) for row in page["rows"]]}
        reference = next((v["key"] for v in page["verdicts"] if v["word"] == "reference"), None)
        base = next((row for row in page["rows"] if row["key"] == reference), None)
        if base is None:
            continue
        for (index, column), verdict in next(graded(kept, terms, np.random.default_rng(0))).items():
            row = page["rows"][index]
            if verdict.word not in DECIDED:
                continue
            differences = _differences(row["cells"][column], base["cells"][column])
            left, others = (
                [gap for seed, gap in differences.items() if (seed % PARTS == part) is out] for out in (True, False)
            )
            if left and others:
                yield Judged(verdict.word, float(np.mean(left)), float(np.mean(others)))


def _of(row: Mapping[str, Any], part: int, *, kept: bool) -> dict[str, Any]:
    cells = {}
    for column, cell in row["cells"].items():
        pairs = [(s, v) for s, v in zip(cell.get("seeds", ()), cell.get("values", ()), strict=True)]
        pairs = [pair for pair in pairs if (pair[0] % PARTS != part) is kept]
        seeds, values = ([pair[at] for pair in pairs] for at in (0, 1))
        cells[column] = {**cell, "n": len(pairs), "seeds": seeds, "values": values}
    return {**row, "cells": cells}


def _differences(cell: Mapping[str, Any], base: Mapping[str, Any]) -> dict[int, float]:
    by_seed = dict(zip(base["seeds"], base["values"], strict=True))
    pairs = zip(cell["seeds"], cell["values"], strict=True)
    return {seed: value - by_seed[seed] for seed, value in pairs if seed in by_seed}


def whole(page: Mapping[str, Any]) -> bool:
    """Whether the page holds every seed's value."""
    return all("values" in cell for row in page["rows"] for cell in row["cells"].values() if cell["n"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", type=Path, nargs="+")
    given = parser.parse_args()
    terms, total = Terms(), np.zeros(2, int)
    print("| page | decided without a third of the seeds | contradicted by that third |\n|---|--:|--:|")
    for path in given.pages:
        page = json.loads(path.read_text())
        if whole(page):
            words = list(judged(page, terms))
            counts = np.array([len(words), sum(word.contradicted(terms.margin) for word in words)])
            total += counts
            print(f"| {path.parent.name}/{path.stem} | {counts[0]} | {counts[1]} |")
    print(f"| all | {total[0]} | {total[1]} ({total[1] / max(1, total[0]):.1%}) |")


if __name__ == "__main__":
    main()
