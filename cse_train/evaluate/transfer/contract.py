"""Types that transfer protocols share: recipes, folds, features and outcomes; needs no torch."""

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cse_train.fields import ConfigError

SENTEVAL_SEED = 1111
"""Seed that SentEval uses for folds and fits."""


@dataclass(frozen=True, kw_only=True)
class ClassifierRecipe:
    """Training settings of one classifier, and the number of folds."""

    folds: int
    optimiser: Literal["adam", "rmsprop"]
    """Optimiser with torch's default learning rate: 1e-3 for adam, 1e-2 for rmsprop."""
    batch_size: int
    tenacity: int
    """Rounds without a better dev accuracy that are allowed in all; a better round does not reset the count."""
    epoch_size: int
    """Epochs in a round, after which the dev accuracy is computed."""


RECIPES = {
    "test": ClassifierRecipe(folds=10, optimiser="adam", batch_size=64, tenacity=5, epoch_size=4),
    "dev": ClassifierRecipe(folds=5, optimiser="rmsprop", batch_size=128, tenacity=3, epoch_size=2),
}
"""Settings of SimCSE's modes `test` and `fasttest`/`dev` (evaluation.py:67-79), which later papers took over."""

Fold = tuple[np.ndarray, np.ndarray]
"""Rows to train on and rows to test on, each in ascending order."""


@dataclass(frozen=True)
class Examples:
    """Features and labels of one split of a task."""

    features: np.ndarray
    """float32 [examples, width]: input of the classifier, made of frozen embeddings."""
    labels: np.ndarray
    """Labels of the examples: int64 classes counted from 0, or float64 grades."""


Splits = Mapping[str, Examples]
"""Splits of a task in order: `all`, or `train` and `test`, or `train`, `dev` and `test`."""


@dataclass(frozen=True)
class TransferOutcome:
    """Accuracies of a task in percent, rounded to two decimals as SentEval rounds them, and exact."""

    devacc: float
    accuracy: float
    exact_devacc: float
    exact_accuracy: float
    predicted: np.ndarray
    """Classes predicted for the test examples, int64; of a task without a test set, for each example by its fold."""


@dataclass(frozen=True)
class Relatedness:
    """Quality of a learned relatedness: correlations times 100, none of them rounded."""

    devpearson: float
    pearson: float
    spearman: float
    mse: float
    """Mean squared difference of grade and prediction."""
    predicted: np.ndarray
    """float64 [test pairs]: predicted grades, between 1 and 5."""


def round_percent(value: float | np.floating) -> float:
    """Rounds to two decimals, as SentEval does."""
    return round(float(value), 2)


def percent(predicted: np.ndarray, labels: np.ndarray) -> float:
    """Returns the accuracy of predicted labels in percent."""
    return 100.0 * float((predicted == labels).mean())


def require_sklearn() -> None:
    """Raises ConfigError with the install command where scikit-learn is absent."""
    if importlib.util.find_spec("sklearn") is None:
        raise ConfigError(["missing package: suite=transfer needs scikit-learn; pip install 'cse-search[transfer]'"])


def stratify(labels: np.ndarray, count: int) -> list[Fold]:
    """Returns `count` shuffled folds with the classes' shares, random_state 1111: equal to SentEval's in every row."""
    from sklearn.model_selection import StratifiedKFold  # an extra, slow to import

    folds = StratifiedKFold(n_splits=count, shuffle=True, random_state=SENTEVAL_SEED)
    return list(folds.split(np.zeros((len(labels), 1)), labels))
