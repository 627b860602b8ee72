"""Two models on the same judged queries: would they differ on other queries, and on which do they differ most?

Seeds of a side are averaged, as they are over sentence pairs, and nothing here covers other seeds. Shape suffix: Q.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.statistics.contrasts import Array
from analysis.statistics.spearman_bootstrap import draws_of
from analysis.tables.columns import Interval
from analysis.tables.directions import Terms
from cse.compare.by_pairs import draws_for, judge_resampled
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
    """Of A minus B over resampled queries, the one that decided: of a tie that within the margin."""
    level: float
    """How often this interval may miss."""
    apart: tuple[QueryDifference, ...]
    """The queries on which they differ most, the most first."""

    @property
    def difference(self) -> float:
        return self.left - self.right


def compare_by_queries(
    kept: Mapping[str, QueryValues], terms: Terms, sides: Mapping[str, Sides], *, top: int = 0, seed: int = 0
) -> list[QueryComparison]:
    """One entry for each column of `kept`; the columns of `sides` share the level, and idle runs there have no word.

    `top`: queries that are listed. Each column's generator has this seed.
    """
    share = terms.family / len(sides)
    return [
        _compare(column, values, sides[column], terms.margin, share, top, np.random.default_rng(seed))
        for column, values in kept.items()
    ]


def _compare(
    column: str,
    values: QueryValues,
    sides: Sides,
    margin: float,
    share: float,
    top: int,
    generator: np.random.Generator,
) -> QueryComparison:
    left_Q, right_Q = (np.mean(seeds, axis=0) for seeds in values)
    apart_Q = left_Q - right_Q
    drawn = draws_of(len(apart_Q), draws_for(share), generator)
    differences_D = np.concatenate([apart_Q @ counts_QD for counts_QD in drawn]) / len(apart_Q)
    word, interval, level = judge_resampled(differences_D, margin * sides.scale.point, share, sides)
    most = np.argsort(-np.abs(apart_Q), kind="stable")[:top]
    return QueryComparison(
        column=column,
        queries=len(apart_Q),
        seeds=(len(values[0]), len(values[1])),
        left=float(left_Q.mean()),
        right=float(right_Q.mean()),
        word=word,
        interval=interval,
        level=level,
        apart=tuple(QueryDifference(int(i), float(left_Q[i]), float(right_Q[i])) for i in most if apart_Q[i]),
    )
