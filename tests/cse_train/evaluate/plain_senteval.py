"""SentEval's procedure one classifier at a time, from reference_spec C2: the peer that the package is compared with.

It shares no code with the package. Like SentEval it seeds torch and numpy globally before every classifier.
"""

import copy
from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import pearsonr, spearmanr
from sklearn.model_selection import StratifiedKFold
from torch import nn

DECAYS = [1e-5, 1e-4, 1e-3, 1e-2]
MODES = {"test": (10, torch.optim.Adam, 64, 5, 4), "dev": (5, torch.optim.RMSprop, 128, 3, 2)}
"""Folds, optimiser, batch size, tenacity, epochs between two looks at the dev accuracy."""


@dataclass
class Plain:
    devacc: float
    accuracy: float
    predicted: np.ndarray
    """Classes of the test examples; without a test set every example is one once."""
    fits: int


class Classifier:
    """Logistic regression trained in one mode; `fits` counts how often."""

    def __init__(self, mode: str, classes: int) -> None:
        self.folds, self.optimiser, self.batch, self.tenacity, self.epoch_size = MODES[mode]
        self.classes, self.fits = classes, 0

    def fit(self, x, y, decay, dev=None):
        """The best model and its dev accuracy; without a dev set 5% of the training set is one."""
        self.fits += 1
        np.random.seed(1111)
        torch.manual_seed(1111)
        model = nn.Linear(x.shape[1], self.classes)
        if dev is None:
            shuffled = np.random.permutation(len(x))
            cut = int(0.05 * len(x))
            dev = x[shuffled[:cut]], y[shuffled[:cut]]
            x, y = x[shuffled[cut:]], y[shuffled[cut:]]
        optimiser = self.optimiser(model.parameters(), weight_decay=decay)
        inputs, targets = torch.from_numpy(x), torch.from_numpy(y)
        best, kept, lost, epoch = -1.0, None, 0, 0
        while epoch <= 200:
            for _ in range(self.epoch_size):
                order = torch.from_numpy(np.random.permutation(len(x)))
                for at in range(0, len(x), self.batch):
                    rows = order[at : at + self.batch]
                    optimiser.zero_grad()
                    nn.functional.cross_entropy(model(inputs[rows]), targets[rows]).backward()
                    optimiser.step()
            epoch += self.epoch_size
            accuracy = float((predict(model, dev[0]) == dev[1]).mean())
            if accuracy > best:
                best, kept = accuracy, copy.deepcopy(model)
                continue
            lost += 1
            if lost > self.tenacity:
                break
        return kept, best

    def search(self, x, y):
        """The best decay over folds of the training set, and its mean accuracy."""
        means = []
        for decay in DECAYS:
            shares = []
            for train, test in self.split(x, y):
                shares.append(self.fit(x[train], y[train], decay, (x[test], y[test]))[1])
            means.append(round(100 * float(np.mean(shares)), 2))
        return DECAYS[int(np.argmax(means))], max(means)

    def split(self, x, y):
        return StratifiedKFold(n_splits=self.folds, shuffle=True, random_state=1111).split(x, y)


def predict(model, x) -> np.ndarray:
    with torch.no_grad():
        return model(torch.from_numpy(x)).argmax(1).numpy()


def plain(splits, classes, mode) -> Plain:
    """`splits` maps all, or train and test, or train, dev and test, to features float32 and labels."""
    classifier = Classifier(mode, classes)
    if "all" in splits:
        return nested(classifier, *splits["all"])
    x, y = splits["train"]
    if "dev" in splits:
        scores = [round(100 * classifier.fit(x, y, decay, splits["dev"])[1], 2) for decay in DECAYS]
        model, _ = classifier.fit(x, y, DECAYS[int(np.argmax(scores))], splits["dev"])
        devacc = max(scores)
    else:
        decay, devacc = classifier.search(x, y)
        model, _ = classifier.fit(x, y, decay)
    x, y = splits["test"]
    found = predict(model, x)
    return Plain(devacc, round(100 * float((found == y).mean()), 2), found, classifier.fits)


def nested(classifier, x, y) -> Plain:
    devs, tests, predicted = [], [], np.full(len(y), -1)
    for train, test in classifier.split(x, y):
        decay, devacc = classifier.search(x[train], y[train])
        model, _ = classifier.fit(x[train], y[train], decay)
        predicted[test] = predict(model, x[test])
        devs.append(devacc)
        tests.append(round(100 * float((predicted[test] == y[test]).mean()), 2))
    return Plain(round(float(np.mean(devs)), 2), round(float(np.mean(tests)), 2), predicted, classifier.fits)


@dataclass
class PlainRelatedness:
    devpearson: float
    pearson: float
    spearman: float
    mse: float
    predicted: np.ndarray
    epochs: int


def encoded(gold) -> np.ndarray:
    """Grades as SentEval encodes them for five classes, grade by grade."""
    made = np.zeros((len(gold), 5), dtype="float32")
    for row, grade in enumerate(gold):
        for column in range(5):
            if column + 1 == np.floor(grade) + 1:
                made[row, column] = grade - np.floor(grade)
            if column + 1 == np.floor(grade):
                made[row, column] = np.floor(grade) - grade + 1
    return made


def plain_relatedness(splits) -> PlainRelatedness:
    """`splits` maps train, dev and test to features float32 and grades."""
    np.random.seed(1111)
    torch.manual_seed(1111)
    x, gold = splits["train"]
    model = nn.Sequential(nn.Linear(x.shape[1], 5), nn.Softmax(dim=-1))
    criterion, optimiser = nn.MSELoss(), torch.optim.Adam(model.parameters(), weight_decay=0.0)
    inputs, targets = torch.from_numpy(x), torch.from_numpy(encoded(gold))
    best, kept, failures, epoch, stopped = -1.0, None, 0, 0, False
    while not stopped and epoch <= 1000:
        for _ in range(50):
            order = np.random.permutation(len(x))
            for at in range(0, len(x), 64):
                rows = torch.from_numpy(order[at : at + 64])
                loss = criterion(model(inputs[rows]), targets[rows])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
        epoch += 50
        correlation = pearsonr(mean_grade(model, splits["dev"][0]), splits["dev"][1])[0]
        if correlation > best:
            best, kept = correlation, copy.deepcopy(model)
        else:
            if failures >= 3:
                stopped = True
            failures += 1
    found, gold = mean_grade(kept, splits["test"][0]), splits["test"][1]
    mse = float(np.mean((found - gold) ** 2))
    return PlainRelatedness(
        100 * best, 100 * pearsonr(found, gold)[0], 100 * spearmanr(found, gold)[0], mse, found, epoch
    )


def mean_grade(model, x) -> np.ndarray:
    with torch.no_grad():
        return np.dot(model(torch.from_numpy(x)).numpy(), np.arange(1, 6))
