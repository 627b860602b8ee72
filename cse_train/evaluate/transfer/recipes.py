"""How SentEval's classifiers are trained; needs no torch."""

from dataclasses import dataclass
from typing import Literal

SEED = 1111
"""SentEval seeds folds and fits with it."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How one classifier is trained, and over how many folds."""

    folds: int
    optimiser: Literal["adam", "rmsprop"]
    """With torch's default rates: 1e-3 and 1e-2."""
    batch_size: int
    tenacity: int
    """Rounds without a better dev accuracy that are forgiven, over the whole fit: a better one does not reset them."""
    epoch_size: int
    """Epochs in a round, after which the dev accuracy is looked at."""


RECIPES = {
    "test": Recipe(folds=10, optimiser="adam", batch_size=64, tenacity=5, epoch_size=4),
    "dev": Recipe(folds=5, optimiser="rmsprop", batch_size=128, tenacity=3, epoch_size=2),
}
"""SimCSE's `test` and `fasttest`/`dev` settings (evaluation.py:67-79), which every paper here took over."""
