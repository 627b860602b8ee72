"""Protocol `senteval`: the classifiers that SentEval trains for each kind of task, and their accuracies.

Source: SentEval tools/validation.py (InnerKFoldClassifier, KFoldClassifier, SplitClassifier). Rounding to two decimals
happens where SentEval rounds, because it decides which weight decay wins.
"""

from collections.abc import Callable, Sequence

import numpy as np
from torch import Tensor

from cse_train.evaluate.transfer.classifier import (
    WEIGHT_DECAYS,
    Fitted,
    Problem,
    add_constant,
    fit,
    hold_out,
    predict,
)
from cse_train.evaluate.transfer.contract import (
    ClassifierRecipe,
    Examples,
    Fold,
    Splits,
    TransferOutcome,
    percent,
    round_percent,
    stratify,
)


def score(splits: Splits, classes: int, recipe: ClassifierRecipe) -> TransferOutcome:
    """Returns dev and test accuracy of a task whose splits are `all`, `train` and `test`, or also `dev`."""
    names = tuple(splits)
    joined = Examples(
        np.concatenate([split.features for split in splits.values()]),
        np.concatenate([split.labels for split in splits.values()]),
    )
    trainer = _Trainer(joined, classes, recipe)
    ends = np.cumsum([len(split.labels) for split in splits.values()])
    rows = [np.arange(end - len(split.labels), end) for end, split in zip(ends, splits.values(), strict=True)]
    return SPLIT_KINDS[names](trainer, *rows)


class _Trainer:
    """Trains classifiers on chosen rows of a task's examples."""

    def __init__(self, examples: Examples, classes: int, recipe: ClassifierRecipe) -> None:
        self.labels, self.classes, self.recipe = examples.labels, classes, recipe
        self.features: Tensor = add_constant(examples.features)

    def fit(self, problems: Sequence[Problem]) -> list[Fitted]:
        return fit(self.features, self.labels, self.classes, problems, self.recipe)

    def folds(self, rows: np.ndarray) -> list[Fold]:
        """Returns stratified folds of some rows, as row numbers of the whole task."""
        return [(rows[train], rows[test]) for train, test in stratify(self.labels[rows], self.recipe.folds)]

    def predict(self, fitted: Fitted, rows: np.ndarray, decay: int = 0) -> np.ndarray:
        classes: np.ndarray = predict(self.features[rows], fitted.weights[:, [decay]])[:, 0].numpy()
        return classes


def _nest_folds(trainer: _Trainer, rows: np.ndarray) -> TransferOutcome:
    """Scores MR, CR, SUBJ and MPQA: each outer fold picks its weight decay in inner folds of its training part."""
    outer = trainer.folds(rows)
    inner = [Problem(*fold) for train, _ in outer for fold in trainer.folds(train)]
    shares_of_inner = _shares(inner, trainer.fit(inner)).reshape(len(outer), -1, len(WEIGHT_DECAYS))
    choices = [_choose_decay(part) for part in shares_of_inner]
    refits = trainer.fit(
        [hold_out(train, WEIGHT_DECAYS[best]) for (train, _), (best, _, _) in zip(outer, choices, strict=True)]
    )
    predicted = np.full(len(rows), -1)
    shares = []
    for fitted, (_, test) in zip(refits, outer, strict=True):
        predicted[test] = trainer.predict(fitted, test)
        shares.append(percent(predicted[test], trainer.labels[test]))
    return TransferOutcome(
        round_percent(np.mean([devacc for _, devacc, _ in choices])),
        round_percent(np.mean([round_percent(share) for share in shares])),
        float(np.mean([exact for _, _, exact in choices])),
        float(np.mean(shares)),
        predicted,
    )


def _cross_validate(trainer: _Trainer, train: np.ndarray, test: np.ndarray) -> TransferOutcome:
    """Scores TREC and MRPC: folds of the training set pick the weight decay, a refit is scored on the test set."""
    problems = [Problem(*fold) for fold in trainer.folds(train)]
    best, devacc, exact = _choose_decay(_shares(problems, trainer.fit(problems)))
    [refit] = trainer.fit([hold_out(train, WEIGHT_DECAYS[best])])
    return _official(trainer, refit, 0, test, (devacc, exact))


def _split(trainer: _Trainer, train: np.ndarray, dev: np.ndarray, test: np.ndarray) -> TransferOutcome:
    """Scores SST-2: the official dev set picks the weight decay. SentEval's refit would give an equal classifier."""
    problems = [Problem(train, dev)]
    [fitted] = trainer.fit(problems)
    best, devacc, exact = _choose_decay(_shares(problems, [fitted]))
    return _official(trainer, fitted, best, test, (devacc, exact))


SPLIT_KINDS: dict[tuple[str, ...], Callable[..., TransferOutcome]] = {
    ("all",): _nest_folds,
    ("train", "test"): _cross_validate,
    ("train", "dev", "test"): _split,
}
"""Names of a task's splits -> function that scores tasks with such splits."""


def _official(
    trainer: _Trainer, fitted: Fitted, decay: int, test: np.ndarray, devacc: tuple[float, float]
) -> TransferOutcome:
    predicted = trainer.predict(fitted, test, decay)
    share = percent(predicted, trainer.labels[test])
    return TransferOutcome(devacc[0], round_percent(share), devacc[1], share, predicted)


def _shares(problems: Sequence[Problem], fits: Sequence[Fitted]) -> np.ndarray:
    """Returns dev accuracies, float64 [problems, weight decays], between 0 and 1."""
    return np.stack([fitted.correct / len(problem.dev) for problem, fitted in zip(problems, fits, strict=True)])


def _choose_decay(shares: np.ndarray) -> tuple[int, float, float]:
    """Returns the index of the first best weight decay by rounded mean over folds, that mean, and the exact mean."""
    exact = 100 * shares.mean(0)
    shown = [round_percent(value) for value in exact]
    best = int(np.argmax(shown))
    return best, shown[best], float(exact[best])
