"""Is the paper's order of the rows supported? Kendall's tau over seeds, and pairs of rows over sentence pairs.

Two sources of chance, told apart: tau's interval says what other seeds would do, the pairwise differences what other
sentences would do to these very runs. Beside them: whether seeds agree on any order.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy

from analysis.statistics.agreement import Concordance, concordance
from analysis.statistics.basics import CONFIDENCE, holm
from analysis.statistics.spearman_bootstrap import resampled
from analysis.tables.aggregate import Entry, Table
from analysis.tables.pair_cosines import ColumnCosines

Word = Literal["ordering supported", "not supported", "undecided"]
LEVEL = 0.05
TAU_DRAWS = 4000
PAIR_DRAWS = 1000
ROWS_NEEDED = 3
QUANTILES = (0.5 - CONFIDENCE / 2, 0.5 + CONFIDENCE / 2)


@dataclass(frozen=True)
class PairDifference:
    """Two rows' difference in Spearman's correlation (points) on one set, seeds averaged."""

    left: int
    right: int
    difference: float
    interval: tuple[float, float]
    p: float
    corrected: float
    """Holm's correction over all pairs of the column."""

    @property
    def differs(self) -> bool:
        return self.corrected <= LEVEL


@dataclass(frozen=True)
class Ordering:
    """What is said of one column's order."""

    column: str
    rows: int
    """Rows with a value of ours and of the paper."""
    tau: float | None
    interval: tuple[float, float] | None
    word: Word
    reason: str
    pairs: tuple[PairDifference, ...] = ()
    lacking: tuple[str, ...] = ()
    """Why rows have no part in `pairs`."""
    agreement: Concordance | None = None
    """Of the seeds, over all rows of ours; None where they are too few."""


def orderings(table: Table, cosines: Mapping[str, ColumnCosines], *, seed: int = 0) -> list[Ordering]:
    """One entry for every column that the paper prints, each from a generator of its own with this seed."""
    return [
        _ordering(table, column, cosines.get(column), np.random.default_rng(seed))
        for column in table.spec.columns
        if any(row.entries[column].published is not None for row in table.rows)
    ]


def _ordering(table: Table, column: str, kept: ColumnCosines | None, generator: np.random.Generator) -> Ordering:
    entries = [row.entries[column] for row in table.rows]
    both = [entry for entry in entries if entry.mean is not None and entry.published is not None]
    ours, printed = [list(entry.values) for entry in both], [float(entry.published or 0.0) for entry in both]
    pairs = pair_differences(kept, generator) if kept else ()
    lacking = kept.problems if kept else ("no cosines of single sentence pairs are kept for this column",)
    tau, interval, word, reason = _tau(ours, printed, generator)
    return Ordering(column, len(both), tau, interval, word, reason, pairs, lacking, of_entries(entries, generator))


def _tau(
    ours: Sequence[Sequence[float]], printed: Sequence[float], generator: np.random.Generator
) -> tuple[float | None, tuple[float, float] | None, Word, str]:
    if len(printed) < ROWS_NEEDED:
        return None, None, "undecided", f"{len(printed)} rows have both numbers, an order needs {ROWS_NEEDED}"
    tau, chance = map(float, scipy.stats.kendalltau([float(np.mean(values)) for values in ours], printed))
    if math.isnan(tau):
        return None, None, "undecided", "all values of one side are equal"
    interval = tau_interval(ours, printed, generator)
    if interval is None:
        return tau, None, "undecided", f"tau {tau:.2f}; no row has two seeds, so that its interval is not known"
    low, high = interval
    word: Word = "ordering supported" if low > 0 else "not supported" if high < 0 else "undecided"
    measured = f"tau {tau:.2f}, interval {low:.2f} to {high:.2f} over seeds, {len(printed)} rows"
    return tau, interval, word, f"{measured}; rows in random order reach it with p {chance:.2g}"


def tau_interval(
    ours: Sequence[Sequence[float]],
    printed: Sequence[float],
    generator: np.random.Generator,
    draws: int = TAU_DRAWS,
) -> tuple[float, float] | None:
    """Percentile interval of tau-b over resampled seeds; None where no row has two seeds."""
    means = resampled_means(ours, generator, draws)
    if means is None:
        return None
    low, high = np.quantile(tau_b(means, np.asarray(printed)), QUANTILES)
    return float(low), float(high)


def resampled_means(values: Sequence[Sequence[float]], generator: np.random.Generator, draws: int) -> np.ndarray | None:
    """Each row's mean over resampled seeds, float64 [draws, rows].

    Deviations are widened by sqrt(n / (n - 1)), without which three seeds would look a fifth too sure; a row of one
    seed draws among the deviations of all others. None where no row has two seeds.
    """
    samples = [np.asarray(row, dtype=float) for row in values]
    deviations = [(row - row.mean()) * math.sqrt(len(row) / (len(row) - 1)) for row in samples if len(row) > 1]
    if not deviations:
        return None
    everyones, row_deviations = np.concatenate(deviations), iter(deviations)
    drawn = []
    for row in samples:
        among = next(row_deviations) if len(row) > 1 else everyones
        drawn.append(row.mean() + among[generator.integers(len(among), size=(draws, len(row)))].mean(axis=1))
    return np.stack(drawn, axis=1)


def tau_b(ours: np.ndarray, printed: np.ndarray) -> np.ndarray:
    """Kendall's tau-b of every line of `ours` [draws, rows] with `printed` [rows]; 0 for a line of equal values."""
    left, right = np.triu_indices(len(printed), 1)
    signs, paper = np.sign(ours[:, left] - ours[:, right]), np.sign(printed[left] - printed[right])
    scale = np.sqrt((signs != 0).sum(axis=1) * (paper != 0).sum())
    return np.divide(signs @ paper, scale, out=np.zeros(len(ours)), where=scale > 0)


def pair_differences(
    kept: ColumnCosines, generator: np.random.Generator, draws: int | None = None
) -> tuple[PairDifference, ...]:
    """Every pair of rows with cosines: paired bootstrap over sentence pairs, p values corrected by Holm over all.

    The default number of draws grows with the number of pairs, so that the smallest p value survives the correction.
    """
    rows = sorted(kept.rows)
    couples = list(itertools.combinations(range(len(rows)), 2))
    if not couples:
        return ()
    draws = draws or max(PAIR_DRAWS, 40 * len(couples))
    values = resampled([kept.rows[row] for row in rows], kept.gold, draws, generator)
    comparisons = [_compared(values[a] - values[b], kept.means[rows[a]] - kept.means[rows[b]]) for a, b in couples]
    ends = [np.quantile(values[a] - values[b], QUANTILES) for a, b in couples]
    corrected = holm([p for _, p in comparisons])
    return tuple(
        PairDifference(rows[a], rows[b], difference, (float(ends[i][0]), float(ends[i][1])), p, corrected[i])
        for i, ((a, b), (difference, p)) in enumerate(zip(couples, comparisons, strict=True))
    )


def _compared(draws: np.ndarray, observed: float) -> tuple[float, float]:
    """The difference and its two-sided p value: how often a resample strays from it as far as it is from 0."""
    far = int(np.count_nonzero(np.abs(draws - observed) >= abs(observed)))
    return observed, (1 + far) / (1 + len(draws))


def of_entries(entries: Sequence[Entry], generator: np.random.Generator) -> Concordance | None:
    """Of all rows with values, on the seeds that they have in common; None where those are too few to say."""
    scored = [dict(zip(entry.seeds, entry.values, strict=True)) for entry in entries if entry.values]
    common = sorted(set.intersection(*map(set, scored))) if scored else []
    return concordance(np.array([[row[seed] for row in scored] for seed in common]), generator)
