"""Compares two models on the same judged queries: an interval over queries, and the queries that differ most.

Each side's values are averaged over its seeds, and the interval does not cover other seeds. A retrieval metric is a
mean over queries, so that Student's paired interval applies; of the tests in use it errs least (Urbano et al., SIGIR
2019), where a bootstrap's percentiles missed 8% at 30 and 50 queries. Shape suffix: Q queries.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.answers.judge import Sides, Terms, Word, judge_items
from analysis.statistics.contrasts import Array, student
from analysis.tables.columns import Interval

QueryValues = tuple[Sequence[Array], Sequence[Array]]
"""Values of each query [Q] times 100, one array for each seed: a sequence for model A, and one for model B."""


@dataclass(frozen=True)
class QueryDifference:
    """One query and its metric under model A (`left`) and model B (`right`), times 100, mean over seeds."""

    index: int
    """Index of the query in its set, from 0."""
    left: float
    right: float


@dataclass(frozen=True)
class QueryComparison:
    """Comparison of models A and B by one metric of one retrieval set, times 100: means over queries and seeds."""

    column: str
    queries: int
    seeds: tuple[int, int]
    """Numbers of runs of A and of B whose values by query are stored."""
    left: float
    right: float
    word: Word
    interval: Interval
    """Interval of A minus B over queries: for a tie, the shorter one that lies within the margin."""
    level: float
    """Probability that `interval` misses the true difference."""
    apart: tuple[QueryDifference, ...]
    """Queries on which A and B differ most, largest difference first."""

    @property
    def difference(self) -> float:
        return self.left - self.right


def compare_by_queries(
    values_by_column: Mapping[str, QueryValues], terms: Terms, sides: Mapping[str, Sides], *, top: int = 0
) -> list[QueryComparison]:
    """Compares A and B query by query in each column of `values_by_column`; all columns of `sides` share the level.

    The verdict is "no signal" where runs of `sides` trained without signal. `top`: number of queries to list.
    """
    share = terms.family / len(sides)
    return [
        _compare(column, values, sides[column], terms.margin, share, top) for column, values in values_by_column.items()
    ]


def _compare(column: str, values: QueryValues, sides: Sides, margin: float, share: float, top: int) -> QueryComparison:
    left_Q, right_Q = (np.mean(seeds, axis=0) for seeds in values)
    difference_Q = left_Q - right_Q
    count, mean = len(difference_Q), float(difference_Q.mean())
    error = float(difference_Q.std(ddof=1)) / count**0.5 if count > 1 else np.inf
    half, tie_half = (float(student(level, count - 1.0)) * error for level in (share, 2 * share))
    interval, of_tie = (mean - half, mean + half), (mean - tie_half, mean + tie_half)
    scaled = margin * sides.scale.point
    judged = judge_items(interval, of_tie, mean, "queries", count, margin=scaled, share=share, sides=sides)
    assert judged.interval is not None and judged.level is not None
    largest = np.argsort(-np.abs(difference_Q), kind="stable")[:top]
    return QueryComparison(
        column=column,
        queries=count,
        seeds=(len(values[0]), len(values[1])),
        left=float(left_Q.mean()),
        right=float(right_Q.mean()),
        word=judged.word,
        interval=judged.interval,
        level=judged.level,
        apart=tuple(QueryDifference(int(i), float(left_Q[i]), float(right_Q[i])) for i in largest if difference_Q[i]),
    )
