"""SentEval's learned relatedness: a softmax layer gives each grade from 1 to 5 a probability (tools/relatedness.py).

The prediction is the expected grade. Training squares the difference of probabilities, under Adam without weight decay;
the dev set's Pearson correlation stops it. Shape suffixes: N pairs, D features and a constant 1, B batch, C grades.
"""

import math

import numpy as np
import torch
from torch import Tensor

from cse_train.evaluate.correlation import pearson, spearman
from cse_train.evaluate.transfer.classifier import add_constant, initial_weights
from cse_train.evaluate.transfer.contract import SENTEVAL_SEED, Relatedness, Splits
from cse_train.evaluate.transfer.optimisers import Adam

SICK_GRADES = np.arange(1, 6)
RELATEDNESS_BATCH = 64
ROUND_EPOCHS = 50
"""Epochs between two evaluations on the dev set."""
RELATEDNESS_EPOCHS = 1000
TENACITY = 3
"""Rounds without a better correlation that are allowed in the whole fit; a better round does not reset the count."""


def score(splits: Splits) -> Relatedness:
    """Fits on `train`, stops and picks the weights on `dev`, and reports on `dev` and `test`."""
    features = {name: add_constant(split.features) for name, split in splits.items()}
    gold = {name: split.labels for name, split in splits.items()}
    devpearson, weights_CD = _fit(features["train"], probabilities(gold["train"]), features["dev"], gold["dev"])
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


def _fit(features_ND: Tensor, targets_NC: Tensor, dev_ND: Tensor, dev_gold: np.ndarray) -> tuple[float, Tensor]:
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
