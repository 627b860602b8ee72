"""A column of a table as verdicts see it, and what a verdict is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from analysis.statistics.basics import Spread
from analysis.statistics.contrasts import Array
from analysis.tables.aggregate import Entry
from analysis.tables.spec import MetricScale

Word = Literal[
    "reproduced", "within seed noise", "different", "not run", "undecided",
    "same direction", "opposite direction", "tie", "no signal", "reference",
]  # fmt: skip
Interval = tuple[float, float]


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
    level: float | None = None
    """How often the interval may miss the truth, at one look."""
    collapsed: int = 0
    """Of our seeds, those that are far below the row's others; no difference averages them in."""


@dataclass(frozen=True)
class Column:
    """One result's entries with what is said of all of them."""

    entries: Sequence[Entry]
    shared: Spread | None
    """Seeds' spread pooled over the column."""
    scale: MetricScale

    @property
    def printed(self) -> list[float]:
        return [entry.published for entry in self.entries if entry.published is not None]

    @property
    def values(self) -> list[float]:
        return [value for entry in self.entries for value in entry.values]

    @property
    def point(self) -> float:
        """`MetricScale.unit` of our values."""
        return self.scale.unit(self.values)

    @property
    def digits(self) -> int:
        """Decimals of our numbers in a reason."""
        return self.scale.digits(self.values)

    @property
    def rounding(self) -> float:
        """Half a unit of the last decimal that the paper prints: 82.5 stands for 82.45 to 82.55."""
        return 0.5 * 10.0 ** -max(len(f"{value:.10g}".partition(".")[2]) for value in self.printed)

    def spread(self, entry: Entry) -> Spread | None:
        """An entry's own spread where two seeds differ, else the column's; None where no seeds tell."""
        spread = Spread(entry.sd, entry.n - 1) if entry.sd else self.shared
        return spread if spread is not None and spread.sd > 0 else None


def align_by_seed(entries: Sequence[Entry]) -> tuple[list[int], Array]:
    """The places of the entries with values, and those values [R, S] by seed, NaN where a row lacks a seed."""
    scored = [i for i, entry in enumerate(entries) if entry.values]
    seeds = sorted({seed for i in scored for seed in entries[i].seeds})
    values = np.full((len(scored), len(seeds)), np.nan)
    for row, i in enumerate(scored):
        values[row, [seeds.index(seed) for seed in entries[i].seeds]] = entries[i].values
    return scored, values
