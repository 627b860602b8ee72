"""Protocol `fast`: one scikit-learn logistic regression per fold on standardised features, C = 1, no grid.

Its accuracies are near SentEval's and not comparable with them. Where a task has no test set, cross-validation gives
the dev and the test accuracy at once, since nothing is chosen by it.
"""

import numpy as np

from cse_train.evaluate.transfer.contract import (
    ClassifierRecipe,
    Examples,
    Splits,
    TransferOutcome,
    percent,
    round_percent,
    stratify,
)

MAX_ITERATIONS = 1000


def score(splits: Splits, _classes: int, recipe: ClassifierRecipe) -> TransferOutcome:
    """Returns a task's dev and test accuracy, cross-validated over the recipe's folds where it has no dev set."""
    first = next(iter(splits.values()))
    if "dev" in splits:
        devacc = percent(_predict(first, splits["dev"].features), splits["dev"].labels)
    else:
        shares, predicted = _cross_validate(first, recipe.folds)
        devacc = float(np.mean(shares))
    if "test" not in splits:
        return TransferOutcome(round_percent(devacc), round_percent(devacc), devacc, devacc, predicted)
    predicted = _predict(first, splits["test"].features)
    accuracy = percent(predicted, splits["test"].labels)
    return TransferOutcome(round_percent(devacc), round_percent(accuracy), devacc, accuracy, predicted)


def _cross_validate(examples: Examples, folds: int) -> tuple[list[float], np.ndarray]:
    """Returns the accuracy of each fold, and the class predicted for every example."""
    predicted = np.full(len(examples.labels), -1)
    shares = []
    for train, test in stratify(examples.labels, folds):
        part = Examples(examples.features[train], examples.labels[train])
        predicted[test] = _predict(part, examples.features[test])
        shares.append(percent(predicted[test], examples.labels[test]))
    return shares, predicted


def _predict(train: Examples, features: np.ndarray) -> np.ndarray:
    from sklearn.linear_model import LogisticRegression  # an extra, slow to import
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=MAX_ITERATIONS))
    classes: np.ndarray = classifier.fit(train.features, train.labels).predict(features)
    return classes
