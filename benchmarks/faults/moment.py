"""When a fault strikes: after a number of dev points of the whole sweep, and a pause, both from a recorded seed."""

from dataclasses import dataclass

import numpy as np

LONGEST_S = 3.0


@dataclass(frozen=True)
class Moment:
    """`points` dev points are in the ledger, then `delay_s` seconds pass."""

    points: int
    delay_s: float


def drawn(seed: int, total: int) -> Moment:
    """A moment of a sweep with `total` dev points, the last two left out: the fault must find something to hurt."""
    rng = np.random.default_rng(seed)
    return Moment(int(rng.integers(0, total - 1)), round(float(rng.uniform(0, LONGEST_S)), 3))
