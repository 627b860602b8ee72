"""Classifiers of SentEval's tasks on frozen embeddings: SentEval's own, many at once, a quick one, and one of grades.

SentEval seeds each fit with 1111, so that all fits start from equal weights and all fits on T examples see the same
permutations of 0..T-1. Here T-sized problems therefore form one batch, and the weight decays of one problem also share
its gathered examples. Source: SentEval tools/classifier.py (MLP with nhid 0).

Protocol `senteval`: the classifiers that SentEval trains for each kind of task, and their accuracies. Source: SentEval
tools/validation.py (InnerKFoldClassifier, KFoldClassifier, SplitClassifier). Rounding to two decimals happens where
SentEval rounds, because it decides which weight decay wins.

Protocol `fast`: one scikit-learn logistic regression per fold on standardised features, C = 1, no grid. Its accuracies
are near SentEval's and not comparable with them. Where a task has no test set, cross-validation gives the dev and the
test accuracy at once, since nothing is chosen by it.

Protocol `relatedness`: a softmax layer gives each grade from 1 to 5 a probability (SentEval tools/relatedness.py). The
prediction is the expected grade. Training squares the difference of probabilities, under Adam without weight decay; the
dev set's Pearson correlation stops it.

Shape suffixes: N examples of the task, D features and a constant 1, G problems trained together, T examples of a
problem, B batch, C classes or grades, M weight decays.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from cse_train.evaluate.correlation import pearson, spearman
from cse_train.evaluate.embedding import NotFinite
from cse_train.evaluate.tasks import (
    SENTEVAL_SEED,
    ClassifierRecipe,
    Examples,
    Fold,
    Relatedness,
    Splits,
    TransferOutcome,
    percent,
    round_percent,
    stratify,
)

WEIGHT_DECAYS = (1e-5, 1e-4, 1e-3, 1e-2)
CLASSIFIER_EPOCHS = 200
HELD_OUT = 0.05
"""Share of a refit's training examples that decide when it stops, since a refit has no dev fold."""


@dataclass(frozen=True)
class Problem:
    """Rows to train on, rows that stop the training and pick the weights, and the weight decays to try."""

    train: np.ndarray
    dev: np.ndarray
    decays: tuple[float, ...] = WEIGHT_DECAYS
    permuted: int = 0
    """Length of a permutation drawn before training starts, which advances the random stream; 0 for none."""


@dataclass(frozen=True)
class Fitted:
    """Best weights of one problem, for each weight decay."""

    correct: np.ndarray
    """int64 [M]: correct dev rows at the best round."""
    weights: Tensor
    """float32 [C, M, D]: weights and, last in D, biases."""


def hold_out(rows: np.ndarray, decay: float) -> Problem:
    """Returns a refit on `rows`, of which the first 5% of a permutation decide when it stops."""
    order = np.random.RandomState(SENTEVAL_SEED).permutation(len(rows))
    count = int(HELD_OUT * len(rows))
    return Problem(rows[order[count:]], rows[order[:count]], (decay,), permuted=len(rows))


def add_constant(features: np.ndarray) -> Tensor:
    """Returns float32 [N, D]: the features and a column of ones, whose weights are the biases.

    Raises NotFinite where the square of a feature is infinite: an optimiser that divides by it never moves a weight.
    """
    if not np.isfinite(np.square(features, dtype=np.float32)).all():
        line = f"not finite: embeddings up to {np.abs(features).max():.3g}, whose squares a classifier needs in fp32"
        raise NotFinite(f"{line}; lower train.learning_rate")
    return torch.from_numpy(np.pad(features.astype(np.float32, copy=False), ((0, 0), (0, 1)), constant_values=1.0))


def fit(
    features_ND: Tensor, labels: np.ndarray, classes: int, problems: Sequence[Problem], recipe: ClassifierRecipe
) -> list[Fitted]:
    """Trains every problem with every weight decay; results in the order given. No global random state is read."""
    labels_N = torch.from_numpy(labels).to(features_ND.device)
    groups: dict[tuple[int, ...], list[int]] = {}
    for at, problem in enumerate(problems):
        groups.setdefault((len(problem.train), problem.permuted, len(problem.decays)), []).append(at)
    fits: dict[int, Fitted] = {}
    for members in groups.values():
        together = _Together(features_ND, labels_N, classes, [problems[at] for at in members], recipe)
        fits |= zip(members, together.run(), strict=True)
    return [fits[at] for at in range(len(problems))]


def predict(features_ND: Tensor, weights_CMD: Tensor) -> Tensor:
    """Returns the class of the highest logit for each example and weight decay, [N, M]."""
    classes, decays, width = weights_CMD.shape
    logits = features_ND @ weights_CMD.reshape(-1, width).T
    return logits.view(-1, classes, decays).argmax(1)


class _Together:
    """Trains problems of equally many rows in lockstep; a problem leaves when all its weight decays have stopped."""

    def __init__(
        self, features_ND: Tensor, labels_N: Tensor, classes: int, problems: Sequence[Problem], recipe: ClassifierRecipe
    ) -> None:
        self.features_ND, self.labels_N, self.recipe, self.problems = features_ND, labels_N, recipe, problems
        device = features_ND.device
        self.targets_NC = nn.functional.one_hot(labels_N, classes).float()
        self.rows_GT = torch.from_numpy(np.stack([problem.train for problem in problems])).to(device)
        self.dev_rows = [torch.from_numpy(problem.dev).to(device) for problem in problems]
        self.decays_GM = torch.tensor([problem.decays for problem in problems], device=device)
        start_CD = initial_weights(classes, features_ND.shape[1] - 1).to(device)
        shape = (*self.decays_GM.shape, classes, features_ND.shape[1])
        self.weights_GCMD = start_CD.expand(shape).transpose(1, 2).contiguous()
        self.optimiser = OPTIMISERS[recipe.optimiser](self.weights_GCMD)
        self.best_GCMD = self.weights_GCMD.clone()
        self.correct_GM = torch.full_like(self.decays_GM, -1, dtype=torch.long)
        self.failures_GM = torch.zeros_like(self.correct_GM)
        self.active = torch.arange(len(problems), device=device)
        """int64: indices of the problems still in training, the first axis of weights, moments, rows and decays."""

    def run(self) -> list[Fitted]:
        """Trains in rounds until every model has stopped, and returns the best weights of each problem."""
        stream = np.random.RandomState(SENTEVAL_SEED)
        # SentEval draws its split from the stream that the epochs use, so the epochs' permutations come after it.
        if self.problems[0].permuted:
            stream.permutation(self.problems[0].permuted)
        epoch = 0
        # `<=` as in SentEval's loop: the last round may begin at CLASSIFIER_EPOCHS.
        while len(self.active) and epoch <= CLASSIFIER_EPOCHS:
            for _ in range(self.recipe.epoch_size):
                order = torch.from_numpy(stream.permutation(self.rows_GT.shape[1])).to(self.rows_GT.device)
                for rows_GB in self.rows_GT[:, order].split(self.recipe.batch_size, dim=1):
                    self._step(rows_GB)
            epoch += self.recipe.epoch_size
            self._look()
        return [Fitted(c.cpu().numpy(), w) for c, w in zip(self.correct_GM, self.best_GCMD, strict=True)]

    def _step(self, rows_GB: Tensor) -> None:
        """Makes one step on the mean cross-entropy of each model plus half its decay times its squared weights."""
        groups, batch = rows_GB.shape
        _, classes, decays, width = self.weights_GCMD.shape
        flat = rows_GB.reshape(-1)
        inputs_GBD = self.features_ND.index_select(0, flat).view(groups, batch, width)
        targets_GBC = self.targets_NC.index_select(0, flat).view(groups, batch, classes, 1)
        logits = torch.bmm(inputs_GBD, self.weights_GCMD.view(groups, -1, width).transpose(1, 2))
        errors = logits.view(groups, batch, classes, decays).softmax(2).sub_(targets_GBC).div_(batch)
        gradient = torch.bmm(errors.view(groups, batch, -1).transpose(1, 2), inputs_GBD).view_as(self.weights_GCMD)
        gradient.addcmul_(self.weights_GCMD, self.decays_GM[:, None, :, None])
        self.optimiser.step(self.weights_GCMD, gradient)

    def _look(self) -> None:
        """Compares dev accuracies with the best so far, keeps better weights, and drops finished problems."""
        tenacity, active = self.recipe.tenacity, self.active
        correct_GM = torch.stack([self._correct(row, int(at)) for row, at in enumerate(active)])
        running = self.failures_GM[active] <= tenacity
        better = running & (correct_GM > self.correct_GM[active])
        self.correct_GM[active] = torch.where(better, correct_GM, self.correct_GM[active])
        self.best_GCMD[active] = torch.where(better[:, None, :, None], self.weights_GCMD, self.best_GCMD[active])
        self.failures_GM[active] += (running & ~better).long()
        self._keep((self.failures_GM[active] <= tenacity).any(1))

    def _correct(self, row: int, at: int) -> Tensor:
        dev = self.dev_rows[at]
        return (predict(self.features_ND[dev], self.weights_GCMD[row]) == self.labels_N[dev, None]).sum(0)

    def _keep(self, kept_G: Tensor) -> None:
        if kept_G.all():
            return
        self.active, self.rows_GT = self.active[kept_G], self.rows_GT[kept_G]
        self.weights_GCMD, self.decays_GM = self.weights_GCMD[kept_G], self.decays_GM[kept_G]
        self.optimiser.keep(kept_G)


def initial_weights(classes: int, width: int) -> Tensor:
    """Returns [C, width + 1]: what torch.nn.Linear draws after torch.manual_seed(1111), weights then biases."""
    generator = torch.Generator().manual_seed(SENTEVAL_SEED)
    weights = nn.init.kaiming_uniform_(torch.empty(classes, width), a=math.sqrt(5), generator=generator)
    biases = nn.init.uniform_(torch.empty(classes), -(width**-0.5), width**-0.5, generator=generator)
    return torch.cat([weights, biases[:, None]], dim=1)


def score_senteval(splits: Splits, classes: int, recipe: ClassifierRecipe) -> TransferOutcome:
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


def _official_split(trainer: _Trainer, train: np.ndarray, dev: np.ndarray, test: np.ndarray) -> TransferOutcome:
    """Scores SST-2: the official dev set picks the weight decay. SentEval's refit would give an equal classifier."""
    problems = [Problem(train, dev)]
    [fitted] = trainer.fit(problems)
    best, devacc, exact = _choose_decay(_shares(problems, [fitted]))
    return _official(trainer, fitted, best, test, (devacc, exact))


SPLIT_KINDS: dict[tuple[str, ...], Callable[..., TransferOutcome]] = {
    ("all",): _nest_folds,
    ("train", "test"): _cross_validate,
    ("train", "dev", "test"): _official_split,
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


MAX_ITERATIONS = 1000


def score_fast(splits: Splits, _classes: int, recipe: ClassifierRecipe) -> TransferOutcome:
    """Returns a task's dev and test accuracy, cross-validated over the recipe's folds where it has no dev set."""
    first = next(iter(splits.values()))
    if "dev" in splits:
        devacc = percent(_predict_fast(first, splits["dev"].features), splits["dev"].labels)
    else:
        shares, predicted = _cross_validate_fast(first, recipe.folds)
        devacc = float(np.mean(shares))
    if "test" not in splits:
        return TransferOutcome(round_percent(devacc), round_percent(devacc), devacc, devacc, predicted)
    predicted = _predict_fast(first, splits["test"].features)
    accuracy = percent(predicted, splits["test"].labels)
    return TransferOutcome(round_percent(devacc), round_percent(accuracy), devacc, accuracy, predicted)


def _cross_validate_fast(examples: Examples, folds: int) -> tuple[list[float], np.ndarray]:
    """Returns the accuracy of each fold, and the class predicted for every example."""
    predicted = np.full(len(examples.labels), -1)
    shares = []
    for train, test in stratify(examples.labels, folds):
        part = Examples(examples.features[train], examples.labels[train])
        predicted[test] = _predict_fast(part, examples.features[test])
        shares.append(percent(predicted[test], examples.labels[test]))
    return shares, predicted


def _predict_fast(train: Examples, features: np.ndarray) -> np.ndarray:
    from sklearn.linear_model import LogisticRegression  # an extra, slow to import
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=MAX_ITERATIONS))
    classes: np.ndarray = classifier.fit(train.features, train.labels).predict(features)
    return classes


SICK_GRADES = np.arange(1, 6)
RELATEDNESS_BATCH = 64
ROUND_EPOCHS = 50
"""Epochs between two evaluations on the dev set."""
RELATEDNESS_EPOCHS = 1000
TENACITY = 3
"""Rounds without a better correlation that are allowed in the whole fit; a better round does not reset the count."""


def score_relatedness(splits: Splits) -> Relatedness:
    """Fits on `train`, stops and picks the weights on `dev`, and reports on `dev` and `test`."""
    features = {name: add_constant(split.features) for name, split in splits.items()}
    gold = {name: split.labels for name, split in splits.items()}
    devpearson, weights_CD = _fit_grades(features["train"], probabilities(gold["train"]), features["dev"], gold["dev"])
    predicted = _expect(features["test"], weights_CD)
    return Relatedness(
        devpearson=devpearson,
        pearson=pearson(predicted, gold["test"]),
        spearman=spearman(predicted, gold["test"]),
        mse=float(np.mean((predicted - gold["test"]) ** 2)),
        predicted=predicted,
    )


def probabilities(gold_N: np.ndarray) -> Tensor:
    """Returns target probabilities, float32 [N, C]: a grade of 3.6 is 0.4 of a 3 and 0.6 of a 4 (Tai et al., 2015).

    SentEval has no probability of a grade 0: STS-B's 0.6 is 0.6 of a 1, and 0 is all zeros.
    """
    return torch.from_numpy(np.maximum(0, 1 - np.abs(gold_N[:, None] - SICK_GRADES))).float()


def _fit_grades(features_ND: Tensor, targets_NC: Tensor, dev_ND: Tensor, dev_gold: np.ndarray) -> tuple[float, Tensor]:
    """Returns the best dev correlation and its weights [C, D]. No global random state is read."""
    weights_CD = initial_weights(len(SICK_GRADES), features_ND.shape[1] - 1)
    optimiser, stream = Adam(weights_CD), np.random.RandomState(SENTEVAL_SEED)
    best, kept_CD, failures, epoch = math.nan, weights_CD.clone(), 0, 0
    while epoch <= RELATEDNESS_EPOCHS and failures <= TENACITY:
        for _ in range(ROUND_EPOCHS):
            for rows_B in torch.from_numpy(stream.permutation(len(features_ND))).split(RELATEDNESS_BATCH):
                optimiser.step(weights_CD, _gradient(features_ND[rows_B], targets_NC[rows_B], weights_CD))
        epoch += ROUND_EPOCHS
        correlation = pearson(_expect(dev_ND, weights_CD), dev_gold)
        if math.isnan(best) or correlation > best:
            best, kept_CD = correlation, weights_CD.clone()
        else:
            failures += 1
    return best, kept_CD


def _gradient(inputs_BD: Tensor, targets_BC: Tensor, weights_CD: Tensor) -> Tensor:
    """Returns the gradient [C, D] of the mean squared difference, over B x C, between softmax and targets."""
    chances_BC = (inputs_BD @ weights_CD.T).softmax(1)
    pulls_BC = (chances_BC - targets_BC) * chances_BC * (2 / targets_BC.numel())
    errors_BC = pulls_BC - chances_BC * pulls_BC.sum(1, keepdim=True)
    return errors_BC.T @ inputs_BD


def _expect(features_ND: Tensor, weights_CD: Tensor) -> np.ndarray:
    """Returns the expected grade of each pair, float64 [N]."""
    expected: np.ndarray = (features_ND @ weights_CD.T).softmax(1).numpy() @ SICK_GRADES
    return expected


class Adam:
    """Adam for a batch of models that are all at one step (Kingma & Ba, 2015, algorithm 1)."""

    rate, beta1, beta2, epsilon = 1e-3, 0.9, 0.999, 1e-8

    def __init__(self, weights: Tensor) -> None:
        self.mean, self.square = torch.zeros_like(weights), torch.zeros_like(weights)
        self.steps = 0

    def step(self, weights: Tensor, gradient: Tensor) -> None:
        """Updates all models' `weights` in place by one step."""
        self.steps += 1
        self.mean.lerp_(gradient, 1 - self.beta1)
        self.square.mul_(self.beta2).addcmul_(gradient, gradient, value=1 - self.beta2)
        scale = self.square.sqrt().div_(math.sqrt(1 - self.beta2**self.steps)).add_(self.epsilon)
        weights.addcdiv_(self.mean, scale, value=-self.rate / (1 - self.beta1**self.steps))

    def keep(self, kept: Tensor) -> None:
        """Drops the state of models, along the first axis, where `kept` is False."""
        self.mean, self.square = self.mean[kept], self.square[kept]


class RMSprop:
    """RMSprop for a batch of models (Tieleman & Hinton, 2012, lecture 6.5), with epsilon outside the root."""

    rate, smoothing, epsilon = 1e-2, 0.99, 1e-8

    def __init__(self, weights: Tensor) -> None:
        self.square = torch.zeros_like(weights)

    def step(self, weights: Tensor, gradient: Tensor) -> None:
        """Updates all models' `weights` in place by one step."""
        self.square.mul_(self.smoothing).addcmul_(gradient, gradient, value=1 - self.smoothing)
        weights.addcdiv_(gradient, self.square.sqrt().add_(self.epsilon), value=-self.rate)

    def keep(self, kept: Tensor) -> None:
        """Drops the state of models, along the first axis, where `kept` is False."""
        self.square = self.square[kept]


OPTIMISERS: dict[str, type[Adam] | type[RMSprop]] = {"adam": Adam, "rmsprop": RMSprop}
