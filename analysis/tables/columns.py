"""An entry of a table with its seeds, a column of them as verdicts see it, and what a verdict is."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np

from analysis.statistics.basics import Spread, mean_and_sd, welch
from analysis.statistics.contrasts import Array
from analysis.statistics.selection import BestOf, best_of_seeds, find_seeds_for
from analysis.tables.spec import MetricScale

Word = Literal[
    "reproduced", "within seed noise", "different", "not run", "undecided",
    "same direction", "opposite direction", "tie", "no signal", "reference",
]  # fmt: skip
Interval = tuple[float, float]


@dataclass(frozen=True)
class Entry:
    """One number of a table with its seeds; `sd` (n - 1 below the line) needs two."""

    n: int
    mean: float | None
    sd: float | None
    published: float | None
    values: tuple[float, ...] = ()
    """One value per seed, in the order of the seeds."""
    seeds: tuple[int, ...] = ()
    """The seeds of `values`."""
    idle: tuple[int, ...] = ()
    """The seeds of idle runs among them."""
    dev: tuple[float, ...] = ()
    """The runs' scores on the dev set, in the order of the seeds; empty where one has none, and for the dev set."""

    @property
    def best_of(self) -> list[BestOf]:
        """What the best of some of its seeds by dev is worth; empty for fewer than three seeds."""
        return best_of_seeds(self.dev, self.values) if self.dev else []

    def seeds_for_published(self, scale: MetricScale) -> int | None:
        """The fewest seeds of which the best by dev is expected to reach the published value; None for none of them."""
        if self.published is None or not self.dev:
            return None
        return find_seeds_for(self.dev, self.values, self.published, lower=scale.better == "lower")

    @property
    def has_signal(self) -> bool:
        """Whether more than half of its runs are not idle."""
        return 2 * len(self.idle) < self.n

    @property
    def delta(self) -> float | None:
        """Ours minus the published value."""
        return None if self.mean is None or self.published is None else self.mean - self.published

    def as_dict(self) -> dict[str, float | None]:
        """Plain data without the single seeds."""
        return {"n": self.n, "mean": self.mean, "sd": self.sd, "published": self.published, "delta": self.delta}


NO_DEV: Mapping[int, float] = MappingProxyType({})


def entry_of(
    seeds: Mapping[int, float],
    published: float | None = None,
    idle: Iterable[int] = (),
    dev: Mapping[int, float] = NO_DEV,
) -> Entry:
    """The entry of values by seed; `idle`: the seeds of idle runs; `dev`: the dev scores, of none or of all."""
    order = tuple(sorted(seeds))
    values = tuple(seeds[seed] for seed in order)
    mean, sd = mean_and_sd(values)
    of_dev = tuple(dev[seed] for seed in order) if dev.keys() >= seeds.keys() else ()
    return Entry(len(values), mean, sd, published, values, order, tuple(sorted(idle)), of_dev)


def differ(left: Entry, right: Entry) -> bool:
    """Whether seeds tell two means apart: Welch's interval of their difference leaves out 0; needs two of each."""
    if left.mean is None or right.mean is None or left.sd is None or right.sd is None:
        return False
    difference = abs(left.mean - right.mean)
    if left.sd == right.sd == 0:
        return difference > 0
    return welch(Spread(left.sd, left.n - 1), left.n, Spread(right.sd, right.n - 1), right.n).excludes(difference)


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
