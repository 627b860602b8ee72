"""SentEval's logistic regression, many at once: problems of one size share every batched product.

SentEval seeds each fit with 1111, so that all fits start from equal weights and all fits on T examples see the same
permutations of 0..T-1. Here T-sized problems therefore form one batch, and the weight decays of one problem also share
its gathered examples. Source: SentEval tools/classifier.py (MLP with nhid 0).

Shape suffixes: N examples of the task, D features and a constant 1, G problems trained together, T examples of a
problem, B batch, C classes, M weight decays.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from cse_train.evaluate.embedding import NotFinite
from cse_train.evaluate.transfer.contract import SENTEVAL_SEED, ClassifierRecipe
from cse_train.evaluate.transfer.optimisers import OPTIMISERS

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
