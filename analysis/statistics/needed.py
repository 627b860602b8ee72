"""How many seeds a difference needs."""

import numpy as np
from scipy import special

from analysis.statistics.contrasts import student

POWER = 0.8
"""How often as many seeds as are named would decide."""
MOST = 200
"""Seeds; more are named as none."""


def seeds_needed(gap: float, variance: float, weight: float, level: float) -> int | None:
    """Seeds of both rows that tell a true difference of `gap` from 0 in POWER of all tables; None for over MOST.

    `variance` is that of the difference within a seed, with `weight` degrees of freedom for each seed but one.
    """
    seeds = np.arange(2, MOST + 1, dtype=np.float64)
    freedom = weight * (seeds - 1.0)
    reach = (student(level, freedom) + special.stdtrit(freedom, POWER)) * np.sqrt(variance / seeds)
    enough = seeds[reach <= abs(gap)]
    return int(enough[0]) if len(enough) else None


def seeds_to_decide(difference: float, margin: float, variance: float, weight: float, level: float) -> int | None:
    """Seeds that tell this difference from 0, or place it within the margin, whichever takes fewer.

    A tie is told at twice the level: its interval is one of 90% where a direction's is one of 95%.
    """
    ways = (
        seeds_needed(difference, variance, weight, level),
        seeds_needed(margin - abs(difference), variance, weight, 2 * level) if abs(difference) < margin else None,
    )
    return min((way for way in ways if way is not None), default=None)
