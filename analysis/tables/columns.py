"""Entry of a table with its seeds, and column of entries for verdicts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from analysis.documents import HIDDEN, OPTIONAL
from analysis.statistics.basics import Spread, mean_and_sd, welch
from analysis.statistics.contrasts import Array
from analysis.statistics.selection import best_of_seeds, find_seeds_for
from analysis.tables.spec import MetricScale

Interval = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class SeedPicks:
    """Worth of the best of some seeds by dev, for each number of seeds."""

    seeds: Sequence[int]
    expected: Sequence[float]
    """Expected score of the seed with the best dev score."""
    error: Sequence[float | None]
    """Standard error of the expected score."""
    range: Sequence[tuple[float, float] | None]
    """Range that holds 95% of the picks; None for too few seeds."""
    for_published: int | None = field(default=0, metadata=OPTIONAL)
    """Fewest seeds whose best is expected to reach the published value, None if none do; 0 without such a value."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One entry of a table with every seed, from which a page can be judged again."""

    n: int
    mean: float | None
    sd: float | None
    """Standard deviation over seeds, with divisor n - 1."""
    published: float | None
    delta: float | None
    """Mean minus the published value."""
    seeds: Sequence[int]
    """Seeds of the entry's runs, in ascending order."""
    values: Sequence[float]
    """Scores, in the order of the seeds."""
    idle: Sequence[int]
    """Seeds whose runs show no signal of training."""
    best_of: SeedPicks | None = field(default=None, metadata=OPTIONAL)
    """Absent for fewer than three seeds, where a dev score is missing, and for the dev set's column."""
    recomputed: float | None = field(default=None, metadata=OPTIONAL)
    """Value that the row's other published numbers give, where the published one is a misprint."""
    failed: int = field(default=0, metadata=HIDDEN)
    """Number of the entry's runs that ended by an error of their own and have no value, such as a diverged loss."""

    @property
    def has_signal(self) -> bool:
        """True if more than half of the entry's runs show a signal of training."""
        return 2 * len(self.idle) < self.n

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
    *,
    recomputed: float | None = None,
    scale: MetricScale | None = None,
) -> Entry:
    """Makes an entry from values by seed; `idle` holds seeds without signal, `dev` the dev scores of none or all,
    `failed` counts runs without a value that ended by an error of their own. Without a scale, higher is better."""
    order = tuple(sorted(seeds))
    values = tuple(seeds[seed] for seed in order)
    mean, sd = mean_and_sd(values)
    dev_scores = [dev[seed] for seed in order] if dev.keys() >= seeds.keys() else []
    return Entry(
        n=len(values),
        mean=mean,
        sd=sd,
        published=published,
        delta=None if mean is None or published is None else mean - published,
        seeds=order,
        values=values,
        idle=tuple(sorted(idle)),
        best_of=_pick_seeds(dev_scores, values, published, scale is not None and scale.better == "lower"),
        recomputed=recomputed,
        failed=failed,
    )


def _pick_seeds(
    dev: Sequence[float], values: Sequence[float], published: float | None, lower: bool
) -> SeedPicks | None:
    best_of = best_of_seeds(dev, values) if dev else []
    if not best_of:
        return None
    return SeedPicks(
        seeds=[best.seeds for best in best_of],
        expected=[best.expected for best in best_of],
        error=[best.error for best in best_of],
        range=[best.spread for best in best_of],
        for_published=0 if published is None else find_seeds_for(dev, values, published, lower=lower),
    )


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
