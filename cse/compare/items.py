"""Compares two models item by item: on the same graded sentence pairs, or on the same judged queries.

Each side's values are averaged over its seeds. Shape suffixes: P sentence pairs, Q queries.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import scipy

from analysis.documents import OPTIONAL, spell_key
from analysis.statistics.contrasts import Array
from analysis.statistics.item_error import ItemError, pair_error, query_error
from analysis.tables.pair_cosines import ColumnCosines

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
    largest: Sequence[QueryDifference] = field(metadata=spell_key("apart"))
    """Queries on which A and B differ most, largest difference first."""
    difference: float


def item_error(cosines: ColumnCosines | None, queries: QueryValues | None) -> ItemError | None:
    """Returns the error of A minus B over a column's sentence pairs, else over its queries; None where neither is known
    of both models."""
    if cosines is not None and cosines.rows.keys() >= {0, 1}:
        return pair_error(cosines.rows[0], cosines.rows[1], cosines.gold)
    return query_error(*queries) if queries is not None else None


def compare_by_pairs(cosines_by_column: Mapping[str, ColumnCosines], *, top: int = 0) -> list[PairComparison]:
    """Compares models A and B in every column for which both have stored cosines, in rows 0 and 1 of its entry.

    `top`: number of disagreements to list.
    """
    comparisons = []
    for column, cosines in cosines_by_column.items():
        if cosines.rows.keys() >= {0, 1}:
            left, right, (a, b) = cosines.means[0], cosines.means[1], (cosines.rows[0], cosines.rows[1])
            listed = disagreements(a, b, cosines.gold, top)
            comparisons.append(
                PairComparison(column, len(cosines.gold), (len(a), len(b)), left, right, listed, left - right)
            )
    return comparisons


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


def compare_by_queries(values_by_column: Mapping[str, QueryValues], *, top: int = 0) -> list[QueryComparison]:
    """Compares models A and B query by query in each column; `top`: number of queries to list."""
    comparisons = []
    for column, values in values_by_column.items():
        left_Q, right_Q = (np.mean(seeds, axis=0) for seeds in values)
        difference_Q = left_Q - right_Q
        order = np.argsort(-np.abs(difference_Q), kind="stable")[:top]
        largest = [QueryDifference(int(i), float(left_Q[i]), float(right_Q[i])) for i in order if difference_Q[i]]
        left, right, seeds = float(left_Q.mean()), float(right_Q.mean()), (len(values[0]), len(values[1]))
        comparisons.append(
            QueryComparison(column, len(difference_Q), seeds, left, right, largest, float(difference_Q.mean()))
        )
    return comparisons
