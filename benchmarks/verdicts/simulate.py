"""Tables whose truth is known: how often the verdicts' rule says anything wrong of one, and how often it decides.

A score is row + sd x (sqrt(rho) seed + sqrt(1 - rho) residual), both standard normal: rows correlate by rho, and one
with a larger deviation follows its seeds further. Shape suffixes as in `analysis.statistics.contrasts`; the first row
is the reference.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.statistics.collapse import comparable
from analysis.statistics.contrasts import Array, Mask, contrasts, student
from analysis.statistics.looks import FAMILY, LOOKS, level

CHUNK = 2500
TOLD_AT: Mapping[str, Sequence[int]] = {
    **{f"{seeds} seeds": (seeds,) for seeds in LOOKS},
    f"looks at {', '.join(map(str, LOOKS))}": LOOKS,
}


@dataclass(frozen=True)
class Setting:
    """Kind of simulated table: its rows' noise, means and correlation."""

    deviations: Sequence[float]
    """Standard deviation of each row over seeds, in points."""
    rho: float = 0.0
    means: Sequence[float] = (0.0,)
    """Mean of each row, in points, or one for all."""
    fall: float = 0.0
    """Points by which one of the first three runs of a row falls, drawn at random for every table."""

    def draw(self, generator: np.random.Generator, tables: int, seeds: int) -> Array:
        """Scores [T, R, S]."""
        rows = len(self.deviations)
        common = generator.normal(size=(tables, 1, seeds))
        residual = generator.normal(size=(tables, rows, seeds))
        noise = np.sqrt(self.rho) * common + np.sqrt(1 - self.rho) * residual
        values = np.broadcast_to(self.means, rows)[:, None] + np.asarray(self.deviations)[:, None] * noise
        if self.fall:
            row, seed = generator.integers(rows, size=tables), generator.integers(min(LOOKS), size=tables)
            values[np.arange(tables), row, seed] -= self.fall
        return np.asarray(values)


@dataclass(frozen=True)
class Words:
    """Verdicts on the contrasts of T tables, arrays [T, C]: +1 or -1 for a direction, 0 for none; tie or not."""

    direction: Array
    tie: Mask

    def wrong(self, truth: Sequence[float] | np.ndarray, margin: float) -> float:
        """Share of tables with a wrong word: a direction that is not the truth's, a tie where the truth is no tie."""
        wanted, far = np.sign(truth), np.abs(truth) >= margin
        return float((((self.direction != 0) & (self.direction != wanted)) | (self.tie & far)).any(axis=1).mean())


def ours(values_TRS: Array, looks: Sequence[int], margin: float) -> Words:
    """The verdicts' rule at every look, where the first word stays and a row that has one gets no more seeds."""
    shape = (len(values_TRS), values_TRS.shape[1] - 1)
    direction, tie = np.zeros(shape), np.zeros(shape, bool)
    share, kept = level(shape[1], interim_analyses=looks), values_TRS[:, :, : looks[-1]].copy()
    for seeds in looks:
        made = contrasts(comparable(kept[:, :, :seeds], 0), 0)
        is_open = (direction == 0) & ~tie
        with np.errstate(invalid="ignore"):
            apart = np.abs(made.difference) > made.half(share)
            inside = np.abs(made.difference) + made.half(2 * share) < margin
        tie |= is_open & inside
        direction = np.where(is_open & apart & ~inside, np.sign(made.difference), direction)
        kept[:, 1:, seeds:][(direction != 0) | tie] = np.nan
    return Words(direction, tie)


def welch(values_TRS: Array, share: float, margin: float = 0.0) -> Words:
    """Welch's interval with Satterthwaite's degrees of freedom at the level `share` a contrast; ties by twice that."""
    seeds, parts = values_TRS.shape[2], values_TRS.var(axis=2, ddof=1) / values_TRS.shape[2]
    error = parts[:, 1:] + parts[:, :1]
    freedom = error**2 / (parts[:, 1:] ** 2 + parts[:, :1] ** 2) * (seeds - 1)
    difference = values_TRS[:, 1:].mean(axis=2) - values_TRS[:, :1].mean(axis=2)
    apart = np.abs(difference) > student(share, freedom) * np.sqrt(error)
    inside = np.abs(difference) + student(2 * share, freedom) * np.sqrt(error) < margin
    return Words(np.where(apart, np.sign(difference), 0.0), inside & ~apart)


def simulated(
    setting: Setting, tables: int, generator: np.random.Generator, margin: float
) -> Mapping[tuple[str, str], Words]:
    """(rule, when) -> its words on the same tables; Welch's at the last of several looks."""
    parts: dict[tuple[str, str], list[Words]] = {}
    for start in range(0, tables, CHUNK):
        values = setting.draw(generator, min(CHUNK, tables - start), max(LOOKS))
        for when, looks in TOLD_AT.items():
            parts.setdefault(("ours", when), []).append(ours(values, looks, margin))
            for name, share in (("Welch", FAMILY), ("Welch, corrected", FAMILY / (values.shape[1] - 1))):
                parts.setdefault((name, when), []).append(welch(values[:, :, : looks[-1]], share))
    return {
        name: Words(np.concatenate([w.direction for w in words]), np.concatenate([w.tie for w in words]))
        for name, words in parts.items()
    }
