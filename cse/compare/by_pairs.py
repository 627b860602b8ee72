"""Two models on the same graded sentence pairs: would they differ on other sentences, and where do they disagree?

Seeds of a side are averaged; its runs stay what they are, so nothing here covers other seeds.
Shape suffixes: P pairs, D draws.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import scipy

from analysis.statistics.contrasts import Array
from analysis.statistics.spearman_bootstrap import resample_pairs
from analysis.tables.columns import Interval
from analysis.tables.directions import Terms
from analysis.tables.pair_cosines import ColumnCosines
from cse.compare.by_seeds import Sides, Word, word_of

LEAST_RESAMPLES = 1000
"""Resamples, at least; so many more that `TAIL` of them lie beyond each end of an interval."""
TAIL = 10
Judged = tuple[Word, Interval, float]
"""A word, the interval that decided it, and how often that may miss."""
NO_SIDES: Mapping[str, Sides] = MappingProxyType({})


@dataclass(frozen=True)
class Disagreement:
    """One sentence pair that the two models rank differently; rank 1 is the least similar pair of the set."""

    index: int
    """In the order of the set."""
    grade: float
    left_rank: float
    """Mean over A's seeds."""
    right_rank: float
    grade_rank: float

    @property
    def nearer(self) -> str:
        """The side whose rank is nearer to the grade's."""
        apart = abs(self.left_rank - self.grade_rank) - abs(self.right_rank - self.grade_rank)
        return "A" if apart < 0 else "B" if apart > 0 else "both"


@dataclass(frozen=True)
class PairComparison:
    """A against B on one set: Spearman's correlation of cosines and grades in points, mean over each side's seeds."""

    column: str
    pairs: int
    seeds: tuple[int, int]
    """Runs of A and of B with kept cosines."""
    left: float
    right: float
    word: Word
    interval: Interval
    """Of A minus B over resampled sentence pairs, the one that decided: of a tie that within the margin."""
    level: float
    """How often this interval may miss."""
    disagreements: tuple[Disagreement, ...]

    @property
    def difference(self) -> float:
        return self.left - self.right


def compare_by_pairs(
    kept: Mapping[str, ColumnCosines],
    terms: Terms,
    *,
    sides: Mapping[str, Sides] = NO_SIDES,
    columns: int | None = None,
    top: int = 0,
    seed: int = 0,
) -> list[PairComparison]:
    """One entry for every column in which both have cosines; row 0 of `kept` is A, row 1 is B.

    `sides`: column -> values of A and of B, whose idle runs withhold a word. `columns`: how many share the level, by
    default as many as in `kept`. `top`: disagreements that are listed. Each column's generator has this seed.
    """
    share = terms.family / (columns or max(1, len(kept)))
    return [
        _compare(column, cosines, terms.margin, share, sides.get(column), top, np.random.default_rng(seed))
        for column, cosines in kept.items()
        if cosines.rows.keys() >= {0, 1}
    ]


def judge_items(interval: Interval, of_tie: Interval, margin: float, share: float, sides: Sides | None) -> Judged:
    """Word, the interval that decides and its level, by two intervals of A minus B over a set's items; idle runs behind
    `sides` have no word. `of_tie` is the shorter one, which misses twice as often as `share`."""
    word = word_of(interval, of_tie, margin, "higher")
    decides, level = (of_tie, 2 * share) if word == "tie" else (interval, share)
    return ("no signal" if sides and sides.lacking_signal(word) else word), decides, level


def _compare(
    column: str,
    kept: ColumnCosines,
    margin: float,
    share: float,
    sides: Sides | None,
    top: int,
    generator: np.random.Generator,
) -> PairComparison:
    draws = max(LEAST_RESAMPLES, math.ceil(2 * TAIL / share))
    left_D, right_D = resample_pairs([kept.rows[0], kept.rows[1]], kept.gold, draws, generator)
    low, high, *of_tie = map(float, np.quantile(left_D - right_D, (share / 2, 1 - share / 2, share, 1 - share)))
    word, interval, level = judge_items((low, high), (of_tie[0], of_tie[1]), margin, share, sides)
    return PairComparison(
        column=column,
        pairs=len(kept.gold),
        seeds=(len(kept.rows[0]), len(kept.rows[1])),
        left=kept.means[0],
        right=kept.means[1],
        word=word,
        interval=interval,
        level=level,
        disagreements=tuple(disagreements(kept.rows[0], kept.rows[1], kept.gold, top)),
    )


def disagreements(left: Sequence[Array], right: Sequence[Array], gold_P: Array, top: int) -> list[Disagreement]:
    """The `top` pairs whose mean ranks are farthest apart, the farthest first; both sides: cosines [P] of each seed."""
    left_P, right_P = (np.mean([scipy.stats.rankdata(cosines) for cosines in side], axis=0) for side in (left, right))
    grade_P = scipy.stats.rankdata(gold_P)
    order = np.argsort(-np.abs(left_P - right_P), kind="stable")[:top]
    return [
        Disagreement(int(i), float(gold_P[i]), float(left_P[i]), float(right_P[i]), float(grade_P[i]))
        for i in order
        if left_P[i] != right_P[i]
    ]
