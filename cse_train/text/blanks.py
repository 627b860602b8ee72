"""Positions that a masked language model fills later: BLANK in the ids of a sentence."""

import numpy as np

BLANK = -1


def blank_tokens(ids: np.ndarray, maskable: np.ndarray, rate: float, rng: np.random.Generator) -> np.ndarray:
    """BLANK at each maskable position with probability `rate`. ids: int [L]; maskable: bool [L]."""
    return np.where(maskable & (rng.random(len(ids)) < rate), BLANK, ids)
