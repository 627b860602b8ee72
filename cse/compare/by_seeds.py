"""Is model A better than model B? One word for each column, from the seeds that both have.

A difference is always A minus B. Interval, tie and collapse are those of a table of two rows (`analysis.statistics`).
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
    """A column's values of A and of B, both with one at least."""

    left: Entry
    right: Entry
    scale: MetricScale = POINTS

    @property
    def values(self) -> list[float]:
        return [*self.left.values, *self.right.values]

    def lacking_signal(self, word: Word) -> str:
        """Why the runs behind them, where these are idle, cannot have this word; empty where they can."""
        return lacking_signal({"A": self.left, "B": self.right}, word)


@dataclass(frozen=True)
class ColumnComparison:
    """A against B in one column."""

    column: str
    left: Entry
    right: Entry
    word: Word
    """Of A."""
    difference: float
    """A minus B: the mean over common seeds, else the difference of the means."""
    interval: Interval | None
    """Of the difference over seeds, the one that decided: of a tie the one that lies within the margin; None where no
    seeds tell."""
    level: float
    """How often this interval may miss the truth at one look."""
    common: int
    """Seeds that both have; where there are none, Welch's interval compares the means."""
    reason: str
    seeds_needed: int | None = None
    """Seeds of each side that decide, if the difference stays what it is; None once decided, and for over MOST."""
    more_seeds: int | None = None
    """What of these is lacking; None for over MOST and without signal."""
    seeds_for_margin: int | None = None
    """Seeds of each side that would show a difference of the margin in four of five comparisons."""
    collapsed: tuple[int, int] = (0, 0)
    """Seeds of A and of B that are far below their row's others."""

    better: Sense = "higher"
    """Which value is the better one."""
    point: float = 1.0
    """A point in the column's units, in which the margin is; 0 where its range is not known, and no tie is told."""
    digits: int = 2
    """Decimals that count."""


def compare_by_seeds(columns: Mapping[str, Sides], terms: Terms) -> list[ColumnComparison]:
    """A word for each column, which share the level."""
    share = terms.share(1, len(columns))
    made = []
    for column, sides in columns.items():
        comparison = _compare(column, sides, terms, share)
        if lacking := sides.lacking_signal(comparison.word):  # idle runs are behind it, and have no word
            comparison = replace(comparison, word="no signal", reason=lacking, seeds_needed=None, more_seeds=None)
        made.append(comparison)
    return made


def verdict_of(comparisons: Sequence[ColumnComparison]) -> tuple[GateWord, int | None]:
    """The word for all columns, and the seeds that are lacking (None for over MOST and without signal).

    A column that is surely worse decides, then one that is open, then one without signal; else one better column is
    enough.
    """
    words = {comparison.word for comparison in comparisons}
    if "worse" in words:
        return "worse", 0
    if "undecided" in words:
        lacking = [comparison.more_seeds for comparison in comparisons if comparison.word == "undecided"]
        return "more-seeds", None if None in lacking else max(more for more in lacking if more is not None)
    if "no signal" in words:
        return "no signal", None
    return ("better" if "better" in words else "tie"), 0


def word_of(interval: Interval, of_tie: Interval, margin: float, better: Sense) -> Word:
    """The word for an interval and the shorter one of a tie: what is surely within the margin is a tie, not better."""
    if -margin < of_tie[0] and of_tie[1] < margin:
        return "tie"
    if interval[0] <= 0 <= interval[1]:
        return "undecided"
    return "better" if (interval[0] > 0) == (better == "higher") else "worse"


def _compare(column: str, sides: Sides, terms: Terms, share: float) -> ColumnComparison:
    left, right, scale = sides.left, sides.right, sides.scale
    point, margin, sense = scale.unit(sides.values), terms.margin * scale.point, scale.better or "higher"
    values, common = _values(left, right)
    fallen = find_collapsed(values[None], point)[0].sum(axis=1)
    ours, note = _difference(values, common, terms, share, point, margin), _tell_collapsed(fallen, values)
    if ours is not None and (alone := side_with_seeds(left, right)):
        ours = replace(ours, seeds=f"{ours.seeds} of {alone}, and {'B' if alone == 'A' else 'A'} has none")
    means = np.nanmean(values, axis=1)
    undecided = ColumnComparison(
        column, left, right, "undecided", float(means[0] - means[1]), None, share, common, "",
        collapsed=(int(fallen[0]), int(fallen[1])), better=sense, point=scale.point, digits=scale.digits(sides.values),
    )  # fmt: skip
    if ours is None:
        reason, more = _unknown(values, common, terms, bool(fallen.any()))
        total = None if more is None else (common or min(left.n, right.n)) + more
        return replace(undecided, reason=reason + note, seeds_needed=total, more_seeds=more)
    word = word_of(ours.interval, ours.tie_interval, margin, sense)
    needed = seeds_to_decide(ours.value, margin, ours.variance, ours.weight, share) if word == "undecided" else None
    have = common or ours.count
    if needed is not None:  # at the next look with so many, where looks were named
        least = max(needed, have + 1)
        needed = next((look for look in terms.looks or () if look >= least), least)
    lacking = None if needed is None else needed - have
    return replace(
        undecided,
        word=word,
        difference=ours.value,
        interval=ours.tie_interval if word == "tie" else ours.interval,
        level=ours.tie_level if word == "tie" else ours.level,
        reason=_reason(ours, word, margin, lacking) + note,
        seeds_needed=needed,
        more_seeds=lacking if word == "undecided" else 0,
        seeds_for_margin=seeds_needed(margin, ours.variance, ours.weight, share) if margin else None,
    )


def side_with_seeds(left: Entry, right: Entry) -> str:
    """The side that has seeds where the other is one folder, which has none; empty for all other pairs."""
    has = {name: entry.n != 1 or min(entry.seeds) >= 0 for name, entry in (("A", left), ("B", right))}
    return next(name for name in has if has[name]) if sum(has.values()) == 1 else ""


def _values(left: Entry, right: Entry) -> tuple[Array, int]:
    """Values [2, S] on the common seeds and their number; on all seeds where none is common.

    A folder is what it is whatever the seed: it has its value beside each seed of the other side.
    """
    _, values = align_by_seed([left, right])
    if alone := side_with_seeds(left, right):
        most = np.array((left if alone == "A" else right).values)
        fixed = np.full_like(most, (right if alone == "A" else left).values[0])
        return np.stack([most, fixed] if alone == "A" else [fixed, most]), 0
    common = np.isfinite(values).all(axis=0)
    return (values[:, common] if common.any() else values), int(common.sum())


def _difference(
    values: Array, common: int, terms: Terms, share: float, point: float, margin: float
) -> Difference | None:
    """None where no seeds tell, and before the first look that was named."""
    if terms.looks and common < terms.looks[0]:
        return None
    return differences(values, 1, point=point, level=share, margin=margin, looks=terms.looks).get(0)


def _reason(ours: Difference, word: Word, margin: float, more: int | None) -> str:
    sure, tied = sureness(ours.level), sureness(ours.tie_level)
    if word == "tie":
        aside = f", and the {sure} interval {'above' if ours.sign > 0 else 'below'} 0" if ours.sign else ""
        return f"the {tied} interval is within ±{margin:g}{aside} ({ours.seeds})"
    if word != "undecided":
        return f"the {sure} interval excludes 0 ({ours.seeds})"
    leaves = f", and the {tied} one leaves ±{margin:g}" if margin else "; no tie can be told, its scale is not known"
    needed = (
        f"over {MOST_SEEDS_NEEDED} seeds"
        if more is None
        else "about 1 more seed"
        if more == 1
        else f"about {more} more seeds"
    )
    return f"the {sure} interval holds 0{leaves} ({ours.seeds}); {needed} would decide it"


def _unknown(values: Array, common: int, terms: Terms, fallen: bool) -> tuple[str, int | None]:
    """Why no seeds tell, and how many more are the least that could; None where many have told nothing."""
    seeds = common or int(np.isfinite(values).sum(axis=1).min())
    if terms.looks and common < terms.looks[0]:
        return f"{common} common seeds, and the first look is at {terms.looks[0]}", terms.looks[0] - common
    if seeds < 2:
        return ONE_SEED, LOOKS[0] - seeds
    if fallen:
        return "too few seeds are left", max(1, SEEDS_TO_COMPARE - seeds)
    lacking = max(1, LOOKS[0] - seeds) if seeds < SEEDS_TO_COMPARE else None
    return "no two seeds differ on either side, so that no seed tells anything", lacking


def _tell_collapsed(fallen: Array, values: Array) -> str:
    """Which seeds have collapsed, in words; empty for none."""
    counts = np.isfinite(values).sum(axis=1)
    shown = [f"{fallen[i]} of {counts[i]} seeds of {name} collapsed" for i, name in enumerate("AB") if fallen[i]]
    return "".join(f"; {line}" for line in shown)
