"""What a transfer protocol takes and gives back: a recipe, folds, features and scores; needs no torch."""

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cse_train.fields import ConfigError

SENTEVAL_SEED = 1111
"""SentEval seeds folds and fits with it."""


@dataclass(frozen=True, kw_only=True)
class ClassifierRecipe:
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
    "test": ClassifierRecipe(folds=10, optimiser="adam", batch_size=64, tenacity=5, epoch_size=4),
    "dev": ClassifierRecipe(folds=5, optimiser="rmsprop", batch_size=128, tenacity=3, epoch_size=2),
}
"""SimCSE's `test` and `fasttest`/`dev` settings (evaluation.py:67-79), which every paper here took over."""

Fold = tuple[np.ndarray, np.ndarray]
"""Rows to train on and rows to test on, each in ascending order."""


@dataclass(frozen=True)
class Examples:
    """Features and labels of one split."""

    features: np.ndarray
    """float32 [examples, width]."""
    labels: np.ndarray
    """[examples]: int64 classes counted from 0, or float64 grades."""


Splits = Mapping[str, Examples]
"""A task's splits in order: `all`, or `train` and `test`, or `train`, `dev` and `test`."""


@dataclass(frozen=True)
class TransferOutcome:
    """Accuracies in percent, rounded to two decimals as SentEval rounds them, and exact."""

    devacc: float
    accuracy: float
    exact_devacc: float
    exact_accuracy: float
    predicted: np.ndarray
    """Classes of the test examples, int64; every example of a task without a test set is one once."""


@dataclass(frozen=True)
class Relatedness:
    """What a learned relatedness is worth: correlations times 100, none of them rounded."""

    devpearson: float
    pearson: float
    spearman: float
    mse: float
    """Mean squared difference of grade and prediction."""
    predicted: np.ndarray
    """float64 [test pairs], between 1 and 5."""


def round_percent(value: float | np.floating) -> float:
    """Two decimals."""
    return round(float(value), 2)


def percent(predicted: np.ndarray, labels: np.ndarray) -> float:
    """Accuracy in percent."""
    return 100.0 * float((predicted == labels).mean())


def require_sklearn() -> None:
    """ConfigError with the install line where scikit-learn is absent."""
    if importlib.util.find_spec("sklearn") is None:
        raise ConfigError(["missing package: suite=transfer needs scikit-learn; pip install 'cse-search[transfer]'"])


def stratify(labels: np.ndarray, count: int) -> list[Fold]:
    """`count` shuffled folds with the classes' shares, from random_state 1111: SentEval's to the row."""
    from sklearn.model_selection import StratifiedKFold  # an extra, slow to import

    folds = StratifiedKFold(n_splits=count, shuffle=True, random_state=SENTEVAL_SEED)
    return list(folds.split(np.zeros((len(labels), 1)), labels))
