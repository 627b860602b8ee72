"""Correlations of cosines with ratings. Cosines are rounded by one function wherever they are ranked.

fp32 gives equal texts in two batches cosines about 1e-7 apart, and fp64 gives a text with itself 1 or 1 - 1e-16: the
order of such cosines is chance. Shape suffix: P pairs.
"""

import math

import numpy as np

DECIMALS = 6
"""Decimals to which cosines are rounded wherever they are ranked."""
COSINE_TOLERANCE = 2 * 10.0**-DECIMALS
"""Largest range of a column of cosines that counts as one cosine and rounding."""
RATING_TOLERANCE = 1e-9
"""Largest range of ratings, as a share of the largest rating, that counts as one rating and rounding."""


def round_cosines(cosines: np.ndarray) -> np.ndarray:
    """Rounds cosines to the DECIMALS with which they are ranked and stored; -0 becomes 0."""
    rounded: np.ndarray = np.round(cosines, DECIMALS) + 0.0
    return rounded


def find_unranked(cosines_P: np.ndarray, gold_P: np.ndarray) -> str:
    """Returns why cosines and ratings have no correlation: one side is constant or mere rounding; empty otherwise."""
    if constant(gold_P):
        return f"the ratings of its {len(gold_P)} pairs are all equal"
    if np.ptp(cosines_P) <= COSINE_TOLERANCE:
        return f"the cosines of its {len(cosines_P)} pairs are all equal, within rounding"
    return ""


def constant(ratings: np.ndarray) -> bool:
    """Returns whether ratings are all equal, or differ by the rounding of their last digit."""
    return bool(np.ptp(ratings) <= RATING_TOLERANCE * np.abs(ratings).max())


def pearson(a: np.ndarray, b: np.ndarray) -> float:
    """Returns the Pearson correlation times 100; NaN when either side is constant. ValueError for NaN and infinity."""
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError("not finite: a correlation of NaN or infinite numbers; lower train.learning_rate")
    centred = [values - values.mean() for values in (a, b)]
    scale = float(np.linalg.norm(centred[0]) * np.linalg.norm(centred[1]))
    return 100.0 * float(centred[0] @ centred[1]) / scale if scale else math.nan


def spearman(cosines_P: np.ndarray, gold_P: np.ndarray) -> float:
    """Returns the Spearman correlation times 100, average ranks for ties; NaN where `find_unranked` gives a reason."""
    from scipy.stats import rankdata  # a second to import

    if not (np.isfinite(cosines_P).all() and np.isfinite(gold_P).all()):
        raise ValueError("not finite: a rank correlation of NaN or infinite numbers; lower train.learning_rate")
    return math.nan if find_unranked(cosines_P, gold_P) else pearson(rankdata(cosines_P), rankdata(gold_P))
