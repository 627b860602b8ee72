"""Compares two models on the same graded sentence pairs: an interval over pairs, and the pairs ranked most differently.

Each side's cosines are averaged over its seeds. The interval covers other sentences, not other seeds. Shape suffixes: P
sentence pairs, D bootstrap draws.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import scipy

from analysis.answers.judge import Sides, Terms, Word, judge_items
from analysis.statistics.contrasts import Array
from analysis.statistics.spearman_bootstrap import resample_pairs
from analysis.tables.columns import Interval
from analysis.tables.pair_cosines import ColumnCosines

LEAST_RESAMPLES = 1000
"""Least number of bootstrap resamples; small levels get more, so that `TAIL` lie beyond each end of the interval."""
TAIL = 10
NO_SIDES: Mapping[str, Sides] = MappingProxyType({})


@dataclass(frozen=True)
class Disagreement:
    """One sentence pair that the two models rank differently; rank 1 is the least similar pair of the set."""

    index: int
    """Index of the sentence pair in its set, from 0."""
    grade: float
    left_rank: float
    """Rank of the pair by A's cosines, mean over A's seeds."""
    right_rank: float
    grade_rank: float

    @property
    def nearer(self) -> str:
        """Returns the side, "A" or "B", whose rank is nearer to the rank of the human grade; "both" where they are
        equally near."""
        distance = abs(self.left_rank - self.grade_rank) - abs(self.right_rank - self.grade_rank)
        return "A" if distance < 0 else "B" if distance > 0 else "both"


@dataclass(frozen=True)
class PairComparison:
    """Comparison of models A and B on one graded set, by Spearman's correlation times 100, mean over seeds."""

    column: str
    pairs: int
    seeds: tuple[int, int]
    """Numbers of runs of A and of B whose cosines are stored."""
    left: float
    right: float
    word: Word
    interval: Interval
    """Interval of A minus B over resampled sentence pairs: for a tie, the shorter one that lies within the margin."""
    level: float
    """Probability that `interval` misses the true difference."""
    disagreements: tuple[Disagreement, ...]

    @property
    def difference(self) -> float:
        return self.left - self.right


def compare_by_pairs(
    cosines_by_column: Mapping[str, ColumnCosines],
    terms: Terms,
    *,
    sides: Mapping[str, Sides] = NO_SIDES,
    columns: int | None = None,
    top: int = 0,
    seed: int = 0,
) -> list[PairComparison]:
    """Compares models A and B in every column for which both have stored cosines, in rows 0 and 1 of its entry.

    `sides`: column -> values of A and of B; where their runs trained without signal, the verdict is "no signal".
    `columns`: number of columns that share the level, by default all of `cosines_by_column`. `top`: number of
    disagreements to list. `seed`: every column's bootstrap starts a new generator with it, so that a column's interval
    does not depend on the other columns.
    """
    share = terms.family / (columns or max(1, len(cosines_by_column)))
    return [
        _compare(column, cosines, terms.margin, share, sides.get(column), top, np.random.default_rng(seed))
        for column, cosines in cosines_by_column.items()
        if cosines.rows.keys() >= {0, 1}
    ]


def _compare(
    column: str,
    cosines: ColumnCosines,
    margin: float,
    share: float,
    sides: Sides | None,
    top: int,
    generator: np.random.Generator,
) -> PairComparison:
    draws = max(LEAST_RESAMPLES, math.ceil(2 * TAIL / share))
    left_D, right_D = resample_pairs([cosines.rows[0], cosines.rows[1]], cosines.gold, draws, generator)
    low, high, *of_tie = map(float, np.quantile(left_D - right_D, (share / 2, 1 - share / 2, share, 1 - share)))
    difference, pairs = cosines.means[0] - cosines.means[1], len(cosines.gold)
    judged = judge_items(
        (low, high), (of_tie[0], of_tie[1]), difference, "pairs", pairs, margin=margin, share=share, sides=sides
    )
    assert judged.interval is not None and judged.level is not None
    return PairComparison(
        column=column,
        pairs=pairs,
        seeds=(len(cosines.rows[0]), len(cosines.rows[1])),
        left=cosines.means[0],
        right=cosines.means[1],
        word=judged.word,
        interval=judged.interval,
        level=judged.level,
        disagreements=tuple(disagreements(cosines.rows[0], cosines.rows[1], cosines.gold, top)),
    )


def disagreements(left: Sequence[Array], right: Sequence[Array], gold_P: Array, top: int) -> list[Disagreement]:
    """Returns the `top` sentence pairs whose mean ranks differ most, largest difference first; each side: cosines [P] a
    seed."""
    left_P, right_P = (np.mean([scipy.stats.rankdata(cosines) for cosines in side], axis=0) for side in (left, right))
    grade_P = scipy.stats.rankdata(gold_P)
    order = np.argsort(-np.abs(left_P - right_P), kind="stable")[:top]
    return [
        Disagreement(int(i), float(gold_P[i]), float(left_P[i]), float(right_P[i]), float(grade_P[i]))
        for i in order
        if left_P[i] != right_P[i]
    ]
