"""What a transfer protocol takes and gives back."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Examples:
    """Features and labels of one split."""

    features: np.ndarray
    """float32 [examples, width]."""
    labels: np.ndarray
    """int64 [examples], counted from 0."""


Splits = Mapping[str, Examples]
"""A task's splits in order: `all`, or `train` and `test`, or `train`, `dev` and `test`."""


@dataclass(frozen=True)
class Outcome:
    """Accuracies in percent, rounded to two decimals as SentEval rounds them, and exact."""

    devacc: float
    accuracy: float
    exact_devacc: float
    exact_accuracy: float
    predicted: np.ndarray
    """Classes of the test examples, int64; every example of a task without a test set is one once."""


def rounded(value: float | np.floating) -> float:
    """Two decimals."""
    return round(float(value), 2)


def percent(predicted: np.ndarray, labels: np.ndarray) -> float:
    """Accuracy in percent."""
    return 100.0 * float((predicted == labels).mean())
