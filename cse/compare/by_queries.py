"""Two models on the same judged queries: would they differ on other queries, and on which do they differ most?

Seeds of a side are averaged, as they are over sentence pairs, and nothing here covers other seeds. A metric is a mean
over queries, so that Student's paired interval of their differences tells it; of the tests in use it errs least (Urbano
et al., SIGIR 2019), where a bootstrap's percentiles missed 8% at 30 and 50 queries. Shape suffix: Q.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.statistics.contrasts import Array, student
from analysis.tables.columns import Interval
from analysis.tables.directions import Terms
from cse.compare.by_pairs import judge_items
from cse.compare.by_seeds import Sides, Word

QueryValues = tuple[Sequence[Array], Sequence[Array]]
"""Of A and of B, for each seed what each query gave [Q], times 100."""


@dataclass(frozen=True)
class QueryDifference:
    """One query, and what it gave on either side, mean over seeds."""

    index: int
    """In the order of the set."""
    left: float
    right: float


@dataclass(frozen=True)
class QueryComparison:
    """A against B by one metric of one set, in points: means over queries, and over each side's seeds."""

    column: str
    queries: int
    seeds: tuple[int, int]
    """Runs of A and of B with kept queries."""
    left: float
    right: float
    word: Word
    interval: Interval
    """Of A minus B over queries, the one that decided: of a tie that within the margin."""
    level: float
    """How often this interval may miss."""
    apart: tuple[QueryDifference, ...]
    """The queries on which they differ most, the most first."""

    @property
    def difference(self) -> float:
        return self.left - self.right


def compare_by_queries(
    kept: Mapping[str, QueryValues], terms: Terms, sides: Mapping[str, Sides], *, top: int = 0
) -> list[QueryComparison]:
    """One entry for each column of `kept`; the columns of `sides` share the level, and idle runs there have no word.

    `top`: queries that are listed.
    """
    share = terms.family / len(sides)
    return [_compare(column, values, sides[column], terms.margin, share, top) for column, values in kept.items()]


def _compare(column: str, values: QueryValues, sides: Sides, margin: float, share: float, top: int) -> QueryComparison:
    left_Q, right_Q = (np.mean(seeds, axis=0) for seeds in values)
    apart_Q = left_Q - right_Q
    count, mean = len(apart_Q), float(apart_Q.mean())
    error = float(apart_Q.std(ddof=1)) / count**0.5 if count > 1 else np.inf
    half, tie_half = (float(student(level, count - 1.0)) * error for level in (share, 2 * share))
    interval, of_tie = (mean - half, mean + half), (mean - tie_half, mean + tie_half)
    word, decides, level = judge_items(interval, of_tie, margin * sides.scale.point, share, sides)
    most = np.argsort(-np.abs(apart_Q), kind="stable")[:top]
    return QueryComparison(
        column=column,
        queries=count,
        seeds=(len(values[0]), len(values[1])),
        left=float(left_Q.mean()),
        right=float(right_Q.mean()),
        word=word,
        interval=decides,
        level=level,
        apart=tuple(QueryDifference(int(i), float(left_Q[i]), float(right_Q[i])) for i in most if apart_Q[i]),
    )
