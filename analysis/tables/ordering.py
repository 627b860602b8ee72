"""Tests the paper's order of rows: Kendall's tau over seeds, and differences of pairs of rows over sentence pairs.

Two sources of chance are kept separate: tau's interval says what other seeds would do, the pairwise differences what
other sentences would do to these very runs. A third test asks whether seeds agree on any order.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from analysis.statistics.agreement import Concordance, concordance
from analysis.statistics.basics import CONFIDENCE, holm
from analysis.statistics.spearman_bootstrap import resample_pairs
from analysis.tables.aggregate import Table
from analysis.tables.columns import Entry, Interval
from analysis.tables.pair_cosines import ColumnCosines

Word = Literal["ordering supported", "not supported", "undecided", "no signal"]
ORDER_LEVEL = 0.05
TAU_DRAWS = 4000
ALL_ORDERS = 7
"""Number of rows up to which chance is computed from every order of them; beyond, from `TAU_DRAWS` random ones."""
PAIR_DRAWS = 1000
ROWS_NEEDED = 3
ROUNDING = 1e-9
QUANTILES = (0.5 - CONFIDENCE / 2, 0.5 + CONFIDENCE / 2)


@dataclass(frozen=True)
class PairDifference:
    """Difference of two rows in Spearman's correlation (points) on one set, seeds averaged."""

    left: int
    right: int
    difference: float
    interval: tuple[float, float]
    p: float
    corrected: float
    """P value with Holm's correction over all pairs of the column."""

    @property
    def differs(self) -> bool:
        return self.corrected <= ORDER_LEVEL


@dataclass(frozen=True)
class Ordering:
    """Verdict on one column's order of rows, compared with the paper's order."""

    column: str
    rows: int
    """Number of rows with both a measured and a published value."""
    tau: float | None
    interval: Interval | None
    word: Word
    reason: str
    pairs: tuple[PairDifference, ...] = ()
    lacking: tuple[str, ...] = ()
    """Reasons why rows are missing from `pairs`."""
    agreement: Concordance | None = None
    """Agreement of seeds over all rows with measured values; None with too few seeds."""
    p: float | None = None
    """Share of random orders of rows whose |tau| reaches the measured one."""


def orderings(table: Table, cosines: Mapping[str, ColumnCosines], *, seed: int = 0) -> list[Ordering]:
    """Returns the result for every column that the paper prints, each from its own generator with this seed."""
    return [
        _ordering(table, column, cosines.get(column), np.random.default_rng(seed))
        for column in table.spec.columns
        if any(row.entries[column].published is not None for row in table.rows)
    ]


def _ordering(table: Table, column: str, cosines: ColumnCosines | None, generator: np.random.Generator) -> Ordering:
    entries = [row.entries[column] for row in table.rows]
    compared = [entry for entry in entries if entry.mean is not None and entry.published is not None]
    signal = np.array([entry.has_signal for entry in compared], dtype=bool)
    values, printed = [list(entry.values) for entry in compared], [float(entry.published or 0.0) for entry in compared]
    pairs = pair_differences(cosines, generator) if cosines else ()
    problems = cosines.problems if cosines else ("no cosines of single sentence pairs are kept for this column",)
    order = Ordering(column, len(compared), None, None, "no signal", table.no_signal)
    if not table.no_signal:
        tau, interval, p, word, reason = _tau(values, printed, signal, generator)
        flat = int((~signal).sum())
        reason += f"; no order among {flat} rows without signal" if flat > 1 and p is not None else ""
        order = Ordering(column, len(compared), tau, interval, word, reason, p=p)
    return replace(order, pairs=pairs, lacking=problems, agreement=order_entries(entries, generator))


def _tau(
    seed_values: Sequence[Sequence[float]], printed: Sequence[float], signal: np.ndarray, generator: np.random.Generator
) -> tuple[float | None, Interval | None, float | None, Word, str]:
    if len(printed) < ROWS_NEEDED:
        return None, None, None, "undecided", f"{len(printed)} rows have both numbers, an order needs {ROWS_NEEDED}"
    means = np.array([[np.mean(values) for values in seed_values]])
    if np.ptp(means) == 0 or np.ptp(printed) == 0:
        return None, None, None, "undecided", "all values of one side are equal"
    tau = float(tau_b(means, np.asarray(printed), signal)[0])
    chance = measure_chance(means[0], printed, signal, generator.spawn(1)[0])
    interval = tau_interval(seed_values, printed, generator, signal=signal)
    if interval is None:
        return tau, None, chance, "undecided", f"tau {tau:.2f}; no row has two seeds, so that its interval is not known"
    low, high = interval
    word: Word = "undecided"
    if chance < ORDER_LEVEL and not low <= 0 <= high:
        word = "ordering supported" if low > 0 else "not supported"
    measured = f"tau {tau:.2f}, interval {low:.2f} to {high:.2f} over seeds, {len(printed)} rows"
    return tau, interval, chance, word, f"{measured}; a random order gets as far {_percent(chance)} of the time"


def _percent(chance: float) -> str:
    """Returns a probability as a percentage of two digits: `40%`, `0.025%`, `100%`."""
    return f"{float(f'{100 * chance:.2g}'):g}%"


def measure_chance(
    means: np.ndarray, printed: Sequence[float], signal: np.ndarray, generator: np.random.Generator
) -> float:
    """Returns the share of random orders of rows whose |tau| reaches that of `means` [rows]."""
    rows = len(means)
    if rows <= ALL_ORDERS:
        orders = np.array(list(itertools.permutations(range(rows))))
    else:
        orders = generator.permuted(np.tile(np.arange(rows), (TAU_DRAWS, 1)), axis=1)
        orders[0] = np.arange(rows)  # ours is one of them, so that no p is 0
    taus = np.abs(tau_b(means[orders], np.asarray(printed), signal[orders]))
    reached = np.abs(tau_b(means[None], np.asarray(printed), signal)) - ROUNDING
    return float(np.mean(taus >= reached))


def tau_interval(
    values: Sequence[Sequence[float]],
    printed: Sequence[float],
    generator: np.random.Generator,
    draws: int = TAU_DRAWS,
    signal: np.ndarray | None = None,
) -> tuple[float, float] | None:
    """Returns the percentile interval of tau-b over resampled seeds; None if no row has two seeds."""
    means = resample_means(values, generator, draws)
    if means is None:
        return None
    low, high = np.quantile(tau_b(means, np.asarray(printed), signal), QUANTILES)
    return float(low), float(high)


def resample_means(values: Sequence[Sequence[float]], generator: np.random.Generator, draws: int) -> np.ndarray | None:
    """Returns each row's mean over resampled seeds, float64 [draws, rows].

    Deviations are widened by sqrt(n / (n - 1)), without which three seeds would look a fifth too sure; a row of one
    seed draws among the deviations of all others. None if no row has two seeds.
    """
    samples = [np.asarray(row, dtype=float) for row in values]
    deviations = [(row - row.mean()) * math.sqrt(len(row) / (len(row) - 1)) for row in samples if len(row) > 1]
    if not deviations:
        return None
    everyones, row_deviations = np.concatenate(deviations), iter(deviations)
    means = []
    for row in samples:
        among = next(row_deviations) if len(row) > 1 else everyones
        means.append(row.mean() + among[generator.integers(len(among), size=(draws, len(row)))].mean(axis=1))
    return np.stack(means, axis=1)


def tau_b(values: np.ndarray, printed: np.ndarray, signal: np.ndarray | None = None) -> np.ndarray:
    """Returns Kendall's tau-b of every line of `values` [draws, rows] with `printed` [rows]; 0 for a line of equal
    values.

    `signal` is [rows] or [draws, rows]; rows without signal count as equal to each other.
    """
    left, right = np.triu_indices(len(printed), 1)
    signs, paper = np.sign(values[:, left] - values[:, right]), np.sign(printed[left] - printed[right])
    if signal is not None:
        signs = np.where(signal[..., left] | signal[..., right], signs, 0)
    scale = np.sqrt((signs != 0).sum(axis=1) * (paper != 0).sum())
    return np.asarray(np.divide(signs @ paper, scale, out=np.zeros(len(values)), where=scale > 0))


def pair_differences(
    cosines: ColumnCosines, generator: np.random.Generator, draws: int | None = None
) -> tuple[PairDifference, ...]:
    """Compares every pair of rows with cosines by a paired bootstrap over sentence pairs, with Holm's correction over
    all.

    The default number of draws grows with the number of pairs, so that the smallest p value survives the correction.
    """
    rows = sorted(cosines.rows)
    couples = list(itertools.combinations(range(len(rows)), 2))
    if not couples:
        return ()
    draws = draws or max(PAIR_DRAWS, 40 * len(couples))
    values = resample_pairs([cosines.rows[row] for row in rows], cosines.gold, draws, generator)
    differences = []
    for a, b in couples:
        resampled, observed = values[a] - values[b], cosines.means[rows[a]] - cosines.means[rows[b]]
        low, high = np.quantile(resampled, QUANTILES)
        # Two-sided: how often a resample strays from the difference as far as it is from 0.
        extreme_count = int(np.count_nonzero(np.abs(resampled - observed) >= abs(observed)))
        # The measured difference counts as one of the draws, so that p is never 0.
        p = (1 + extreme_count) / (1 + len(resampled))
        differences.append(PairDifference(rows[a], rows[b], observed, (float(low), float(high)), p, corrected=p))
    corrected = holm([pair.p for pair in differences])
    return tuple(replace(pair, corrected=p) for pair, p in zip(differences, corrected, strict=True))


def order_entries(entries: Sequence[Entry], generator: np.random.Generator) -> Concordance | None:
    """Returns the agreement of seeds over all rows with values, on their common seeds; None if those are too few."""
    scored = [dict(zip(entry.seeds, entry.values, strict=True)) for entry in entries if entry.values]
    common = sorted(set.intersection(*map(set, scored))) if scored else []
    return concordance(np.array([[row[seed] for row in scored] for seed in common]), generator)
