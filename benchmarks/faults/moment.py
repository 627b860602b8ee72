"""When a fault strikes: after a number of dev points of the whole sweep, and a pause, both from a recorded seed."""

from dataclasses import dataclass

import numpy as np

LONGEST_S = 1.5


@dataclass(frozen=True)
class Moment:
    """`points` dev points are in the ledger and the driver has a run in hand, then `delay_s` seconds pass."""

    points: int
    delay_s: float


def drawn(seed: int, total: int) -> Moment:
    """Draws a moment of a sweep with `total` dev points, before the last eighth: the fault must find work to hurt."""
    rng = np.random.default_rng(seed)
    return Moment(int(rng.integers(0, total - total // 8)), round(float(rng.uniform(0, LONGEST_S)), 3))
