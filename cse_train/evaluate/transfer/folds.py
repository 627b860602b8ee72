"""Stratified folds, by scikit-learn so that they are SentEval's to the row; without it one line that says so."""

import importlib.util

import numpy as np

from cse_train.evaluate.transfer.recipes import SEED
from cse_train.fields import ConfigError

Fold = tuple[np.ndarray, np.ndarray]
"""Rows to train on and rows to test on, each in ascending order."""


def require_sklearn() -> None:
    """ConfigError with the install line where scikit-learn is absent."""
    if importlib.util.find_spec("sklearn") is None:
        raise ConfigError(["missing package: suite=transfer needs scikit-learn; pip install 'cse-search[transfer]'"])


def stratified_folds(labels: np.ndarray, count: int) -> list[Fold]:
    """`count` shuffled folds with the classes' shares, from random_state 1111."""
    from sklearn.model_selection import StratifiedKFold  # an extra, slow to import

    folds = StratifiedKFold(n_splits=count, shuffle=True, random_state=SEED)
    return list(folds.split(np.zeros((len(labels), 1)), labels))
