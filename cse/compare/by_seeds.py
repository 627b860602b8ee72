"""Is model A better than model B? One verdict for each column, from the seeds that both have.

A difference is always A minus B. Intervals, ties and collapsed seeds are found as in a table with two rows, by
`analysis.statistics`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from analysis.statistics.basics import sureness
from analysis.statistics.collapse import SEEDS_TO_COMPARE, find_collapsed
from analysis.statistics.contrasts import Array
from analysis.statistics.differences import Difference, differences
from analysis.statistics.looks import LOOKS
from analysis.statistics.needed import MOST_SEEDS_NEEDED, seeds_needed, seeds_to_decide
from analysis.tables.columns import Entry, Interval, align_by_seed
from analysis.tables.directions import Terms, lacking_signal
from analysis.tables.spec import POINTS, MetricScale, Sense

Word = Literal["better", "worse", "tie", "undecided", "no signal"]
GateWord = Literal["better", "worse", "tie", "more-seeds", "no signal"]
ONE_SEED = "one seed on a side: what other seeds would give is not covered"


@dataclass(frozen=True)
class Sides:
    """Values of model A (`left`) and of model B (`right`) in one column, at least one each, and the metric's scale."""

    left: Entry
    right: Entry
    scale: MetricScale = POINTS

    @property
    def values(self) -> list[float]:
        return [*self.left.values, *self.right.values]

    def lacking_signal(self, word: Word) -> str:
        """Returns why runs that trained without signal rule out this verdict; "" where nothing rules it out."""
        return lacking_signal({"A": self.left, "B": self.right}, word)


@dataclass(frozen=True)
class ColumnComparison:
    """Comparison of models A and B in one column: the verdict, the difference and its interval over seeds."""

    column: str
    left: Entry
    right: Entry
    word: Word
    """Verdict on model A: "better" means that A is better than B."""
    difference: float
    """Difference A minus B: the mean over common seeds; without common seeds, the difference of the two means."""
    interval: Interval | None
    """Interval of the difference over seeds: the shorter one for a tie; None where seeds give none."""
    level: float
    """Probability that `interval` misses the true difference, at one interim analysis."""
    common: int
    """Number of seeds that both models have; 0 means that Welch's interval compares the two means."""
    reason: str
    seeds_needed: int | None = None
    """Seeds of each side that would decide, if the difference does not change; None if decided or over
    MOST_SEEDS_NEEDED."""
    more_seeds: int | None = None
    """Seeds of each side that are lacking for `seeds_needed`; 0 if decided, None if over MOST_SEEDS_NEEDED or no
    signal."""
    seeds_for_margin: int | None = None
    """Seeds of each side that would show a difference of one margin in four of five comparisons."""
    collapsed: tuple[int, int] = (0, 0)
    """Numbers of seeds of A and of B that collapsed: their values lie far below the others of their side."""

    better: Sense = "higher"
    """Direction of the metric: whether the higher or the lower value is better."""
    point: float = 1.0
    """One point in the column's units, in which the margin is given; 0 where the range is unknown, and no tie is
    possible."""
    digits: int = 2
    """Decimals shown for the column's values."""


def compare_by_seeds(columns: Mapping[str, Sides], terms: Terms) -> list[ColumnComparison]:
    """Returns a verdict for each column; all columns share the level of `terms`."""
    share = terms.share(1, len(columns))
    comparisons = []
    for column, sides in columns.items():
        comparison = _compare(column, sides, terms, share)
        if no_signal := sides.lacking_signal(comparison.word):  # runs that trained without signal decide nothing
            comparison = replace(comparison, word="no signal", reason=no_signal, seeds_needed=None, more_seeds=None)
        comparisons.append(comparison)
    return comparisons


def verdict_of(comparisons: Sequence[ColumnComparison]) -> tuple[GateWord, int | None]:
    """Returns the verdict over all columns, and how many seeds are still lacking.

    The first that applies: a column that is worse, one that is undecided, one without signal, one that is better; else
    a tie. The seeds are None for over MOST_SEEDS_NEEDED and for no signal.
    """
    words = {comparison.word for comparison in comparisons}
    if "worse" in words:
        return "worse", 0
    if "undecided" in words:
        missing_seeds = [comparison.more_seeds for comparison in comparisons if comparison.word == "undecided"]
        return "more-seeds", None if None in missing_seeds else max(more for more in missing_seeds if more is not None)
    if "no signal" in words:
        return "no signal", None
    return ("better" if "better" in words else "tie"), 0


def word_of(interval: Interval, of_tie: Interval, margin: float, better: Sense) -> Word:
    """Returns the verdict for an interval of A minus B and the shorter interval of a tie.

    A difference that is surely within the margin is a tie, even where `interval` excludes 0.
    """
    if -margin < of_tie[0] and of_tie[1] < margin:
        return "tie"
    if interval[0] <= 0 <= interval[1]:
        return "undecided"
    return "better" if (interval[0] > 0) == (better == "higher") else "worse"


def _compare(column: str, sides: Sides, terms: Terms, share: float) -> ColumnComparison:
    left, right, scale = sides.left, sides.right, sides.scale
    point, margin, sense = scale.unit(sides.values), terms.margin * scale.point, scale.better or "higher"
    values, common = _values(left, right)
    collapsed = find_collapsed(values[None], point)[0].sum(axis=1)
    difference, note = _difference(values, common, terms, share, point, margin), _tell_collapsed(collapsed, values)
    if difference is not None and (side := side_with_seeds(left, right)):
        other = "B" if side == "A" else "A"
        difference = replace(difference, seeds=f"{difference.seeds} of {side}, and {other} has none")
    means = np.nanmean(values, axis=1)
    undecided = ColumnComparison(
        column, left, right, "undecided", float(means[0] - means[1]), None, share, common, "",
        collapsed=(int(collapsed[0]), int(collapsed[1])), better=sense, point=scale.point,
        digits=scale.digits(sides.values),
    )  # fmt: skip
    if difference is None:
        reason, more = _unknown(values, common, terms, bool(collapsed.any()))
        total = None if more is None else (common or min(left.n, right.n)) + more
        return replace(undecided, reason=reason + note, seeds_needed=total, more_seeds=more)
    word = word_of(difference.interval, difference.tie_interval, margin, sense)
    needed = (
        seeds_to_decide(difference.value, margin, difference.variance, difference.weight, share)
        if word == "undecided"
        else None
    )
    seeds = common or difference.count
    if needed is not None:  # at the next look with so many, where looks were named
        least = max(needed, seeds + 1)
        needed = next((look for look in terms.looks or () if look >= least), least)
    more_seeds = None if needed is None else needed - seeds
    return replace(
        undecided,
        word=word,
        difference=difference.value,
        interval=difference.tie_interval if word == "tie" else difference.interval,
        level=difference.tie_level if word == "tie" else difference.level,
        reason=_reason(difference, word, margin, more_seeds) + note,
        seeds_needed=needed,
        more_seeds=more_seeds if word == "undecided" else 0,
        seeds_for_margin=seeds_needed(margin, difference.variance, difference.weight, share) if margin else None,
    )


def side_with_seeds(left: Entry, right: Entry) -> str:
    """Returns the side, "A" or "B", that has seeds while the other is a single folder without any; "" for all other
    pairs."""
    has_seeds = {name: entry.n != 1 or min(entry.seeds) >= 0 for name, entry in (("A", left), ("B", right))}
    return next(name for name in has_seeds if has_seeds[name]) if sum(has_seeds.values()) == 1 else ""


def _values(left: Entry, right: Entry) -> tuple[Array, int]:
    """Returns values [2, S] of A and B and the number of common seeds; without common seeds, values over all seeds.

    A single folder has no seed: its value is repeated beside each seed of the other side.
    """
    _, values = align_by_seed([left, right])
    if side := side_with_seeds(left, right):
        seeded = np.array((left if side == "A" else right).values)
        fixed = np.full_like(seeded, (right if side == "A" else left).values[0])
        return np.stack([seeded, fixed] if side == "A" else [fixed, seeded]), 0
    common = np.isfinite(values).all(axis=0)
    return (values[:, common] if common.any() else values), int(common.sum())


def _difference(
    values: Array, common: int, terms: Terms, share: float, point: float, margin: float
) -> Difference | None:
    """Returns the difference of A and B; None if the seeds give none, and before the first interim analysis."""
    if terms.looks and common < terms.looks[0]:
        return None
    return differences(values, 1, point=point, level=share, margin=margin, looks=terms.looks).get(0)


def _reason(difference: Difference, word: Word, margin: float, more: int | None) -> str:
    sure, tied = sureness(difference.level), sureness(difference.tie_level)
    if word == "tie":
        aside = f", and the {sure} interval {'above' if difference.sign > 0 else 'below'} 0" if difference.sign else ""
        return f"the {tied} interval is within ±{margin:g}{aside} ({difference.seeds})"
    if word != "undecided":
        return f"the {sure} interval excludes 0 ({difference.seeds})"
    leaves = f", and the {tied} one leaves ±{margin:g}" if margin else "; no tie can be told, its scale is not known"
    needed = (
        f"over {MOST_SEEDS_NEEDED} seeds"
        if more is None
        else "about 1 more seed"
        if more == 1
        else f"about {more} more seeds"
    )
    return f"the {sure} interval holds 0{leaves} ({difference.seeds}); {needed} would decide it"


def _unknown(values: Array, common: int, terms: Terms, has_collapsed: bool) -> tuple[str, int | None]:
    """Returns why the seeds give no interval, and the least number of further seeds that could; None if none could."""
    seeds = common or int(np.isfinite(values).sum(axis=1).min())
    if terms.looks and common < terms.looks[0]:
        return f"{common} common seeds, and the first look is at {terms.looks[0]}", terms.looks[0] - common
    if seeds < 2:
        return ONE_SEED, LOOKS[0] - seeds
    if has_collapsed:
        return "too few seeds are left", max(1, SEEDS_TO_COMPARE - seeds)
    more = max(1, LOOKS[0] - seeds) if seeds < SEEDS_TO_COMPARE else None
    return "no two seeds differ on either side, so that no seed tells anything", more


def _tell_collapsed(collapsed: Array, values: Array) -> str:
    """Returns a message fragment on collapsed seeds of A and of B; "" for none."""
    counts = np.isfinite(values).sum(axis=1)
    lines = [f"{collapsed[i]} of {counts[i]} seeds of {name} collapsed" for i, name in enumerate("AB") if collapsed[i]]
    return "".join(f"; {line}" for line in lines)
