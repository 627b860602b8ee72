"""Compares two models item by item: on the same graded sentence pairs, or on the same judged queries.

Each side's values are averaged over its seeds. The interval covers other items, not other seeds. Shape suffixes: P
sentence pairs, Q queries, D bootstrap draws.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

import numpy as np
import scipy

from analysis.answers.judge import Judgement, ModelWord, Sides, Terms, judge_items
from analysis.documents import OPTIONAL, spell_key
from analysis.statistics.contrasts import Array, student
from analysis.statistics.spearman_bootstrap import resample_pairs
from analysis.tables.columns import Interval
from analysis.tables.pair_cosines import ColumnCosines

LEAST_RESAMPLES = 1000
"""Least number of bootstrap resamples; small levels get more, so that `TAIL` lie beyond each end of the interval."""
TAIL = 10
QueryValues = tuple[Sequence[Array], Sequence[Array]]
"""Values of each query [Q] times 100, one array for each seed: a sequence for model A, and one for model B."""


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
    nearer: Literal["A", "B", "both"]
    """Side whose rank is nearer to the rank of the human grade; both where they are equally near."""
    texts: tuple[str, str] | None = field(default=None, metadata=OPTIONAL)
    """The two sentences, where the data are at hand."""


@dataclass(frozen=True)
class PairComparison:
    """Comparison of models A and B on one graded set, by Spearman's correlation times 100, mean over seeds."""

    column: str
    pairs: int
    seeds: tuple[int, int]
    """Numbers of runs of A and of B whose cosines are stored."""
    left: float
    right: float
    word: ModelWord
    interval: Interval
    """Interval of A minus B over resampled sentence pairs: for a tie, the shorter one that lies within the margin."""
    level: float
    """Probability that `interval` misses the true difference."""
    disagreements: Sequence[Disagreement]
    difference: float


@dataclass(frozen=True)
class QueryDifference:
    """One query and its metric under model A (`left`) and model B (`right`), times 100, mean over seeds."""

    index: int
    """Index of the query in its set, from 0."""
    left: float
    right: float
    text: str | None = field(default=None, metadata=OPTIONAL)
    """The query, where the data are at hand."""


@dataclass(frozen=True)
class QueryComparison:
    """Comparison of models A and B by one metric of one retrieval set, times 100: means over queries and seeds."""

    column: str
    queries: int
    seeds: tuple[int, int]
    """Numbers of runs of A and of B whose values by query are stored."""
    left: float
    right: float
    word: ModelWord
    interval: Interval
    """Interval of A minus B over queries: for a tie, the shorter one that lies within the margin."""
    level: float
    """Probability that `interval` misses the true difference."""
    largest: Sequence[QueryDifference] = field(metadata=spell_key("apart"))
    """Queries on which A and B differ most, largest difference first."""
    difference: float


def compare_by_pairs(
    cosines_by_column: Mapping[str, ColumnCosines], terms: Terms, sides: Mapping[str, Sides], *, top: int = 0
) -> list[PairComparison]:
    """Compares models A and B in every column for which both have stored cosines, in rows 0 and 1 of its entry.

    All columns of `sides` share the level; the word is "no signal" where runs of `sides` trained without signal. `top`:
    number of disagreements to list.
    """
    share = terms.family / len(sides)
    return [
        _compare_pairs(column, cosines, terms.margin, share, sides[column], top)
        for column, cosines in cosines_by_column.items()
        if cosines.rows.keys() >= {0, 1}
    ]


def _compare_pairs(
    column: str, cosines: ColumnCosines, margin: float, share: float, sides: Sides, top: int
) -> PairComparison:
    draws = max(LEAST_RESAMPLES, math.ceil(2 * TAIL / share))
    # Every column starts a new generator, so that its interval does not depend on the other columns.
    generator = np.random.default_rng(0)
    left_D, right_D = resample_pairs([cosines.rows[0], cosines.rows[1]], cosines.gold, draws, generator)
    low, high, *of_tie = map(float, np.quantile(left_D - right_D, (share / 2, 1 - share / 2, share, 1 - share)))
    left, right, pairs = cosines.means[0], cosines.means[1], len(cosines.gold)
    judged = judge_items(
        (low, high), (of_tie[0], of_tie[1]), left - right, "pairs", pairs, margin=margin, share=share, sides=sides
    )
    word, interval, level = _decided(judged)
    listed = disagreements(cosines.rows[0], cosines.rows[1], cosines.gold, top)
    seeds = len(cosines.rows[0]), len(cosines.rows[1])
    return PairComparison(column, pairs, seeds, left, right, word, interval, level, listed, left - right)


def disagreements(left: Sequence[Array], right: Sequence[Array], gold_P: Array, top: int) -> list[Disagreement]:
    """Returns the `top` sentence pairs whose mean ranks differ most, largest difference first; each side: cosines [P] a
    seed."""
    left_P, right_P = (np.mean([scipy.stats.rankdata(cosines) for cosines in side], axis=0) for side in (left, right))
    grade_P = scipy.stats.rankdata(gold_P)
    distance_P = np.abs(left_P - grade_P) - np.abs(right_P - grade_P)
    order = np.argsort(-np.abs(left_P - right_P), kind="stable")[:top]
    return [
        Disagreement(
            int(i),
            float(gold_P[i]),
            float(left_P[i]),
            float(right_P[i]),
            float(grade_P[i]),
            "A" if distance_P[i] < 0 else "B" if distance_P[i] > 0 else "both",
        )
        for i in order
        if left_P[i] != right_P[i]
    ]


def compare_by_queries(
    values_by_column: Mapping[str, QueryValues], terms: Terms, sides: Mapping[str, Sides], *, top: int = 0
) -> list[QueryComparison]:
    """Compares models A and B query by query in each column of `values_by_column`; all columns of `sides` share the
    level.

    The word is "no signal" where runs of `sides` trained without signal. `top`: number of queries to list.
    """
    share = terms.family / len(sides)
    return [
        _compare_queries(column, values, terms.margin, share, sides[column], top)
        for column, values in values_by_column.items()
    ]


def _compare_queries(
    column: str, values: QueryValues, margin: float, share: float, sides: Sides, top: int
) -> QueryComparison:
    """Compares by Student's paired interval, since a retrieval metric is a mean over queries.

    Of the tests in use it errs least (Urbano et al., SIGIR 2019), where a bootstrap's percentiles missed 8% at 30 and
    50 queries.
    """
    left_Q, right_Q = (np.mean(seeds, axis=0) for seeds in values)
    difference_Q = left_Q - right_Q
    count, mean = len(difference_Q), float(difference_Q.mean())
    error = float(difference_Q.std(ddof=1)) / count**0.5 if count > 1 else np.inf
    half, tie_half = (float(student(level, count - 1.0)) * error for level in (share, 2 * share))
    interval, of_tie = (mean - half, mean + half), (mean - tie_half, mean + tie_half)
    scaled = margin * sides.scale.point
    judged = judge_items(interval, of_tie, mean, "queries", count, margin=scaled, share=share, sides=sides)
    word, decides, level = _decided(judged)
    order = np.argsort(-np.abs(difference_Q), kind="stable")[:top]
    largest = [QueryDifference(int(i), float(left_Q[i]), float(right_Q[i])) for i in order if difference_Q[i]]
    left, right, seeds = float(left_Q.mean()), float(right_Q.mean()), (len(values[0]), len(values[1]))
    return QueryComparison(column, count, seeds, left, right, word, decides, level, largest, left - right)


def _decided(judged: Judgement) -> tuple[ModelWord, Interval, float]:
    assert judged.interval is not None and judged.level is not None
    return cast(ModelWord, judged.word), judged.interval, judged.level
