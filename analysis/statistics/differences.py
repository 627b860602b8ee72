"""Difference of a row from a reference row over seeds, at the interim analysis ("look") that decides it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.statistics.basics import Spread, welch
from analysis.statistics.collapse import comparable
from analysis.statistics.contrasts import Array, contrasts, student

EQUAL_VARIANCE = 1e-18
"""Variance, in points squared, below which differences are rounding errors."""


@dataclass(frozen=True)
class Difference:
    """Difference of a row from the reference row at one interim analysis, with its intervals."""

    value: float
    half: float
    """Half the width of the interval that decides on a direction."""
    tie_half: float
    """Half the width of the interval that decides on a tie."""
    variance: float
    """Variance of the rows' difference within a seed."""
    weight: float
    """Degrees of freedom of the variance that each seed adds after the first."""
    seeds: str
    """Number of seeds in words, for a message."""
    count: int
    level: float
    """Significance level of the interval that decides on a direction; the interval of a tie has twice that level."""

    @property
    def interval(self) -> tuple[float, float]:
        return self.value - self.half, self.value + self.half

    @property
    def tie_interval(self) -> tuple[float, float]:
        return self.value - self.tie_half, self.value + self.tie_half

    @property
    def tie_level(self) -> float:
        return 2 * self.level

    @property
    def sign(self) -> int:
        """Sign of a difference whose interval excludes 0, else 0."""
        return 0 if abs(self.value) <= self.half else 1 if self.value > 0 else -1

    def within(self, margin: float) -> bool:
        """Returns whether the difference is surely smaller than the margin; never for a margin of 0."""
        return abs(self.value) + self.tie_half < margin


def differences(
    values_RS: Array, reference: int, *, point: float, level: float, margin: float, looks: Sequence[int] | None = None
) -> dict[int, Difference]:
    """Returns row -> difference at the interim analysis that decides it, else at the last one; rows without a spread
    are left out.

    `values_RS` [rows, seeds] holds NaN where a row lacks a seed. `point` is a point in the values' units; `margin` is
    in the same units, 0 where nothing can be a tie. `level` is the significance level of one row's interval at one
    analysis. `looks` holds the numbers of seeds of the analyses; those above the number of seeds have not come yet.
    Without any there is one analysis of all seeds.
    """
    by_row: dict[int, Difference] = {}
    for look in [look for look in looks or () if look <= values_RS.shape[1]] or [values_RS.shape[1]]:
        seen_RS = values_RS[:, :look]
        for row, current in _differences_at(seen_RS, reference, point, level).items():
            earlier = by_row.get(row)
            is_open = earlier is None or not (earlier.sign or earlier.within(margin))
            # Once a row has a difference, a further look counts only if the row has all seeds of it.
            if is_open and (earlier is None or np.isfinite(seen_RS[row]).all()):
                by_row[row] = current
    return by_row


def _differences_at(values_RS: Array, reference: int, point: float, level: float) -> dict[int, Difference]:
    compared = comparable(values_RS[None], reference, point)
    contrast = contrasts(compared, reference)
    halves, tie_halves = contrast.half(level)[0], contrast.half(2 * level)[0]
    varies = np.nanmax(values_RS[reference]) > np.nanmin(values_RS[reference])
    by_row = {}
    for place, row in enumerate(np.delete(np.arange(len(values_RS)), reference)):
        seeds, variance = int(contrast.seeds[0, place]), float(contrast.variance[0, place])
        if seeds == 0:
            welch_difference = _compare_unpaired(compared[0, row], compared[0, reference], level)
            by_row.update({int(row): welch_difference} if welch_difference else {})
        elif np.isfinite(variance) and (varies or variance > EQUAL_VARIANCE * point**2):
            weight = max(1.0, contrast.freedom[0, place] / max(1, seeds - 1))
            by_row[int(row)] = Difference(
                float(contrast.difference[0, place]), float(halves[place]), float(tie_halves[place]),
                variance, weight, f"{seeds} seed{'s' * (seeds > 1)}", seeds, level,
            )  # fmt: skip
    return by_row


def _compare_unpaired(row_S: Array, reference_S: Array, level: float) -> Difference | None:
    """Returns Welch's difference of means, for rows without common seeds; None if one has fewer than two or none
    vary.

    Its degrees of freedom are those of the row with fewer seeds (Hsu 1938): Satterthwaite's miss up to 11% at 3 seeds
    and corrected levels.
    """
    row, base = row_S[np.isfinite(row_S)], reference_S[np.isfinite(reference_S)]
    fewest = min(len(row), len(base))
    if fewest < 2 or not (row.std() or base.std()):
        return None
    spreads = Spread(float(row.std(ddof=1)), len(row) - 1), Spread(float(base.std(ddof=1)), len(base) - 1)
    error = welch(spreads[0], len(row), spreads[1], len(base)).sd
    half, tie_half = (float(student(alpha, fewest - 1.0)) * error for alpha in (level, 2 * level))
    seeds = f"{len(row)}/{len(base)} seeds, none in common"
    return Difference(float(row.mean() - base.mean()), half, tie_half, error**2 * fewest, 1.0, seeds, fewest, level)
