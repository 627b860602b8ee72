"""Importance of axes: the share of the scores' variation that each explains, next to what seeds alone would show.

An additive model of one effect per axis value is fitted to the runs' scores. An axis' share is the part of the total
sum of squares that the model loses without the axis (type II; in a balanced grid the main-effect sum of squares of the
analysis of variance). Runs of one cell differ by their seeds alone: that is the error of the F test, whose upper
quantile gives the share which seeds alone reach once in twenty times.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from analysis.statistics.basics import CONFIDENCE

IMPORTANCE_LEVELS = 8
"""Largest number of distinct values of a numeric axis; an axis with more is cut into quarters of equal counts."""


@dataclass(frozen=True)
class AxisShare:
    """Share of the total sum of squares that one axis explains."""

    axis: str
    levels: int
    share: float
    floor: float | None
    """Share that seeds alone reach once in twenty times; None if no cell has two seeds."""
    p: float | None
    """Probability that seeds alone give such a share; None if no cell has two seeds."""


@dataclass(frozen=True)
class Importance:
    """Shares of the total sum of squares; in a balanced design those of axes, `seeds` and `rest` add up to 1."""

    axes: tuple[AxisShare, ...]
    seeds: float | None
    """Share of the differences within cells; None if no cell has two seeds."""
    rest: float | None
    """Share that no axis alone explains: interactions, and differences within a bin of a cut axis."""
    runs: int
    balanced: bool
    """True if every combination of values has as many runs, so that no axis' share depends on the others'."""


def importance(keys: Sequence[Mapping[str, object]], scores: Sequence[float], axes: Sequence[str]) -> Importance | None:
    """Returns the shares of `axes` over runs with these cell keys; None if no score or no axis varies."""
    values = np.asarray(scores, dtype=float)
    assert values.shape == (len(keys),)
    levels = {axis: _levels([key.get(axis) for key in keys]) for axis in axes}
    levels = {axis: codes for axis, codes in levels.items() if codes.max(initial=0) > 0}
    total = float(((values - values.mean()) ** 2).sum()) if values.size else 0.0
    if not levels or total <= 0:
        return None
    cells = _codes([tuple(key.get(axis) for axis in axes) for key in keys])
    within, freedom = _squares_within(values, cells)
    everything, rank = _residual(values, list(levels.values()))
    shares = []
    for axis, codes in levels.items():
        rest, smaller = _residual(values, [other_codes for name, other_codes in levels.items() if name != axis])
        shares.append(_share(axis, codes, max(0.0, rest - everything), rank - smaller, total, within, freedom))
    interactions = max(0.0, everything - within) / total
    return Importance(
        tuple(shares),
        within / total if freedom else None,
        interactions if freedom else None,
        len(values),
        _balanced(list(levels.values())),
    )


def _share(
    axis: str, codes: np.ndarray, gained: float, degrees: int, total: float, within: float, freedom: int
) -> AxisShare:
    """Returns an axis' share with its floor from F(degrees, freedom); an axis determined by others has no degrees."""
    share, levels = gained / total, int(codes.max()) + 1
    if not freedom or not degrees or within <= 0:
        return AxisShare(axis, levels, share, None, None)
    noise = within / freedom
    floor = degrees * noise * float(scipy.stats.f.ppf(CONFIDENCE, degrees, freedom)) / total
    p = float(scipy.stats.f.sf(gained / degrees / noise, degrees, freedom))
    return AxisShare(axis, levels, share, floor, p)


def _levels(values: Sequence[Any]) -> np.ndarray:
    """Returns codes of an axis' values: one per value, or per quarter where there are many numbers."""
    present = [value for value in values if value is not None]
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in present)
    if not numeric or len(set(present)) <= IMPORTANCE_LEVELS:
        return _codes(values)
    edges = np.quantile(np.asarray(present, dtype=float), [0.25, 0.5, 0.75])
    return _codes([None if value is None else int(np.searchsorted(edges, value)) for value in values])


def _codes(values: Sequence[Hashable]) -> np.ndarray:
    """Returns each value's number in order of first appearance, [runs]."""
    order = {value: code for code, value in enumerate(dict.fromkeys(values))}
    return np.array([order[value] for value in values], dtype=int)


def _squares_within(values: np.ndarray, cells: np.ndarray) -> tuple[float, int]:
    """Returns the sum of squares within cells and its degrees of freedom."""
    counts = np.bincount(cells)
    means = np.bincount(cells, weights=values) / counts
    return float(((values - means[cells]) ** 2).sum()), int((counts - 1).sum())


def _residual(values: np.ndarray, axes: Sequence[np.ndarray]) -> tuple[float, int]:
    """Returns the sum of squares that the additive model leaves, and the model's rank.

    Least squares use the normal equations of indicator columns, whose matrix is as small as the number of levels.
    """
    # The first level of each axis is part of the constant column: its own column would be redundant.
    columns = [np.ones((len(values), 1)), *(np.eye(codes.max() + 1)[codes][:, 1:] for codes in axes)]
    design = np.hstack(columns)
    effects, _, rank, _ = np.linalg.lstsq(design.T @ design, design.T @ values, rcond=1e-10)
    return float(((values - design @ effects) ** 2).sum()), int(rank)


def _balanced(axes: Sequence[np.ndarray]) -> bool:
    """Returns whether every combination of levels has the same number of runs."""
    counts = np.bincount(_codes(list(zip(*(codes.tolist() for codes in axes), strict=True))))
    return len(counts) == math.prod(int(codes.max()) + 1 for codes in axes) and bool((counts == counts[0]).all())
