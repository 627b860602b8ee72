"""Entry of a table with its seeds, and column of entries for verdicts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from analysis.statistics.basics import Spread, mean_and_sd, welch
from analysis.statistics.contrasts import Array
from analysis.statistics.selection import BestOf, best_of_seeds, find_seeds_for
from analysis.tables.spec import MetricScale

Interval = tuple[float, float]


@dataclass(frozen=True)
class Entry:
    """One entry of a table: mean and sd (divisor n - 1) over seeds, and the published value."""

    n: int
    mean: float | None
    sd: float | None
    published: float | None
    values: tuple[float, ...] = ()
    """Scores of the entry's runs, one per seed, in the order of the seeds."""
    seeds: tuple[int, ...] = ()
    """Seeds of the entry's runs, in ascending order, one for each of `values`."""
    idle: tuple[int, ...] = ()
    """Seeds whose runs show no signal of training."""
    dev: tuple[float, ...] = ()
    """Dev scores of the runs, in the order of the seeds; empty where one is missing, and for the dev set's column."""
    failed: int = 0
    """Number of the entry's runs that ended by an error of their own and have no value, such as a diverged loss."""

    @property
    def best_of(self) -> list[BestOf]:
        """Worth of the best of some of the entry's seeds by dev; empty for fewer than three seeds."""
        return best_of_seeds(self.dev, self.values) if self.dev else []

    def seeds_for_published(self, scale: MetricScale) -> int | None:
        """Returns the fewest seeds whose best by dev is expected to reach the published value; None if none do."""
        if self.published is None or not self.dev:
            return None
        return find_seeds_for(self.dev, self.values, self.published, lower=scale.better == "lower")

    @property
    def has_signal(self) -> bool:
        """True if more than half of the entry's runs show a signal of training."""
        return 2 * len(self.idle) < self.n

    @property
    def delta(self) -> float | None:
        """Mean over seeds minus the published value; None if one is missing."""
        return None if self.mean is None or self.published is None else self.mean - self.published

    def as_dict(self) -> dict[str, float | None]:
        """Returns the entry as plain data without single seeds."""
        return {"n": self.n, "mean": self.mean, "sd": self.sd, "published": self.published, "delta": self.delta}


NO_DEV: Mapping[int, float] = MappingProxyType({})


def entry_of(
    seeds: Mapping[int, float],
    published: float | None = None,
    idle: Iterable[int] = (),
    dev: Mapping[int, float] = NO_DEV,
    failed: int = 0,
) -> Entry:
    """Makes an entry from values by seed; `idle` holds seeds without signal, `dev` the dev scores of none or all,
    `failed` counts runs without a value that ended by an error of their own."""
    order = tuple(sorted(seeds))
    values = tuple(seeds[seed] for seed in order)
    mean, sd = mean_and_sd(values)
    dev_scores = tuple(dev[seed] for seed in order) if dev.keys() >= seeds.keys() else ()
    return Entry(len(values), mean, sd, published, values, order, tuple(sorted(idle)), dev_scores, failed)


def differ(left: Entry, right: Entry) -> bool:
    """Returns whether Welch's interval of the difference of two means leaves out 0; needs two seeds of each."""
    if left.mean is None or right.mean is None or left.sd is None or right.sd is None:
        return False
    difference = abs(left.mean - right.mean)
    if left.sd == right.sd == 0:
        return difference > 0
    return welch(Spread(left.sd, left.n - 1), left.n, Spread(right.sd, right.n - 1), right.n).excludes(difference)


@dataclass(frozen=True)
class Column:
    """Entries of one column with the seeds' pooled spread and the scale."""

    entries: Sequence[Entry]
    shared: Spread | None
    """Spread of seeds, pooled over the column; None if no entry has two seeds."""
    scale: MetricScale

    @property
    def printed(self) -> list[float]:
        return [entry.published for entry in self.entries if entry.published is not None]

    @property
    def values(self) -> list[float]:
        return [value for entry in self.entries for value in entry.values]

    @property
    def point(self) -> float:
        """One point in the units of the column's values (`MetricScale.unit`)."""
        return self.scale.unit(self.values)

    @property
    def digits(self) -> int:
        """Decimals of measured numbers in a verdict's reason."""
        return self.scale.digits(self.values)

    @property
    def rounding(self) -> float:
        """Half a unit of the last decimal that the paper prints: 82.5 stands for 82.45 to 82.55."""
        return 0.5 * 10.0 ** -max(len(f"{value:.10g}".partition(".")[2]) for value in self.printed)

    def spread(self, entry: Entry) -> Spread | None:
        """Returns an entry's own spread if two seeds differ, else the column's; None if neither is known."""
        spread = Spread(entry.sd, entry.n - 1) if entry.sd else self.shared
        return spread if spread is not None and spread.sd > 0 else None


def align_by_seed(entries: Sequence[Entry]) -> tuple[list[int], Array]:
    """Returns the indices of entries with values, and their values [R, S] by seed, NaN where a row lacks a seed."""
    scored = [i for i, entry in enumerate(entries) if entry.values]
    seeds = sorted({seed for i in scored for seed in entries[i].seeds})
    values = np.full((len(scored), len(seeds)), np.nan)
    for row, i in enumerate(scored):
        values[row, [seeds.index(seed) for seed in entries[i].seeds]] = entries[i].values
    return scored, values
