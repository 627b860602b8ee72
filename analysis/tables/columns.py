"""A column of a table as verdicts see it, and what a verdict is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from analysis.statistics.basics import Spread
from analysis.statistics.contrasts import Array
from analysis.tables.aggregate import Entry

Word = Literal[
    "reproduced", "within seed noise", "different", "not run", "undecided",
    "same direction", "opposite direction", "tie", "no signal", "reference",
]  # fmt: skip
Interval = tuple[float, float]

UNIT_VALUES = 5.0
"""A column whose published values all lie below this is not in points (cosines, alignment): there 0.01 is a point."""


@dataclass(frozen=True)
class Verdict:
    """What is said of one published value."""

    word: Word
    interval: Interval | None
    """The interval that decided: of our mean, of one further seed, or of our difference from the reference row."""
    published: float
    """What is looked for in it: the paper's value, or its difference from the paper's reference row."""
    reason: str
    seeds_needed: int | None = None
    """Seeds that would show the paper's difference in four of five tables, by our seeds' spread."""
    more_seeds: int | None = None
    """Seeds that an undecided row and its reference lack, if our difference stays what it is."""
    collapsed: int = 0
    """Of our seeds, those that are far below the row's others; no difference averages them in."""


@dataclass(frozen=True)
class Column:
    """One result's entries with what is said of all of them."""

    entries: Sequence[Entry]
    shared: Spread | None
    """Seeds' spread pooled over the column."""

    @property
    def printed(self) -> list[float]:
        return [entry.published for entry in self.entries if entry.published is not None]

    @property
    def point(self) -> float:
        return 0.01 if all(abs(value) < UNIT_VALUES for value in self.printed) else 1.0

    @property
    def digits(self) -> int:
        """Decimals of our numbers in a reason."""
        return 2 if self.point == 1 else 4

    @property
    def rounding(self) -> float:
        """Half a unit of the last decimal that the paper prints: 82.5 stands for 82.45 to 82.55."""
        return 0.5 * 10.0 ** -max(len(f"{value:.10g}".partition(".")[2]) for value in self.printed)

    def spread(self, entry: Entry) -> Spread | None:
        """An entry's own spread where two seeds differ, else the column's; None where no seeds tell."""
        spread = Spread(entry.sd, entry.n - 1) if entry.sd else self.shared
        return spread if spread is not None and spread.sd > 0 else None


def by_seed(entries: Sequence[Entry]) -> tuple[list[int], Array]:
    """The places of the entries with values, and those values [R, S] by seed, NaN where a row lacks a seed."""
    scored = [i for i, entry in enumerate(entries) if entry.values]
    seeds = sorted({seed for i in scored for seed in entries[i].seeds})
    values = np.full((len(scored), len(seeds)), np.nan)
    for row, i in enumerate(scored):
        values[row, [seeds.index(seed) for seed in entries[i].seeds]] = entries[i].values
    return scored, values
