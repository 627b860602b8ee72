"""Detects seeds that collapsed: runs far below the other seeds of their row. They are counted and never averaged."""

import numpy as np
from numpy.typing import NDArray

COLLAPSE_POINTS = 10.0
"""Smallest distance in points of a collapsed seed below its row's others; seeds of one setting differ by up to 6.6."""
COLLAPSE_DEVIATIONS = 6.0
"""Smallest distance of a collapsed seed below its row's others, in robust deviations of the table."""
COLLAPSE_RANGES = 4.0
"""Smallest distance of a collapsed seed, in ranges of its row's others: a row that is noisy all over has none."""
SEEDS_NEEDED = 3
SEEDS_TO_COMPARE = 5
"""Seeds that a row with collapsed seeds needs for comparisons. A noisy row of fewer loses its lowest seed too often."""
NORMAL_SCALE = 1.4826
"""Ratio of a normal standard deviation to the median absolute deviation."""

Array = NDArray[np.float64]


def find_collapsed(values_TRS: Array, point: float = 1.0) -> NDArray[np.bool_]:
    """Returns a mask of collapsed values in tables x rows x seeds; NaN is a missing seed, `point` a point in their
    units.

    Only fewer than half of a row's seeds can collapse: of two seeds nobody knows which is right. The table's deviation
    is 1.4826 times the median distance from the rows' medians, without the medians themselves, so that a few collapsed
    seeds do not hide each other.
    """
    known_TR = np.isfinite(values_TRS).sum(axis=2)
    sorted_TRS = np.sort(values_TRS, axis=2)  # NaN comes last, so that a row's known values are its first
    top_TR = np.take_along_axis(sorted_TRS, np.maximum(known_TR - 1, 0)[:, :, None], axis=2)[:, :, 0]
    limit_T = np.maximum(COLLAPSE_POINTS * point, COLLAPSE_DEVIATIONS * _deviation(values_TRS))
    highest_TR = np.full(known_TR.shape, -np.inf)
    with np.errstate(invalid="ignore"):
        # The gap above the `lowest` lowest seeds, which are fewer than half, decides on all of them.
        for lowest in range(1, (values_TRS.shape[2] - 1) // 2 + 1):
            below, above = sorted_TRS[:, :, lowest - 1], sorted_TRS[:, :, lowest]
            is_far = above - below > np.maximum(limit_T[:, None], COLLAPSE_RANGES * (top_TR - above))
            highest_TR = np.where(is_far & (2 * lowest < known_TR) & (known_TR >= SEEDS_NEEDED), below, highest_TR)
        return np.asarray(values_TRS <= highest_TR[:, :, None])


def comparable(values_TRS: Array, reference: int, point: float = 1.0) -> Array:
    """Returns values with NaN for collapsed seeds; a row with collapsed seeds and fewer than five in all becomes NaN.

    A reference row of fewer than five seeds keeps all: it is then a noisy row, and every contrast with it is wide.
    """
    fallen_TRS = find_collapsed(values_TRS, point)
    few_TR: NDArray[np.bool_] = np.less(np.isfinite(values_TRS).sum(axis=2), SEEDS_TO_COMPARE)
    fallen_TRS |= few_TR[:, :, None] & fallen_TRS.any(axis=2, keepdims=True)
    fallen_TRS[:, reference] &= np.logical_not(few_TR[:, reference])[:, None]
    return np.where(fallen_TRS, np.nan, values_TRS)


def _deviation(values_TRS: Array) -> Array:
    """Returns the robust deviation of each table's values from their rows' medians, [T]; 0 where nothing deviates."""
    filled_TRS = np.where(np.isfinite(values_TRS).any(axis=2, keepdims=True), values_TRS, 0.0)
    distances = np.abs(filled_TRS - np.nanmedian(filled_TRS, axis=2, keepdims=True)).reshape(len(values_TRS), -1)
    distances = np.where(distances > 0, distances, np.nan)
    some_T1 = np.isfinite(distances).any(axis=1, keepdims=True)
    return np.asarray(NORMAL_SCALE * np.nanmedian(np.where(some_T1, distances, 0.0), axis=1))
