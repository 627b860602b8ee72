"""Suite `transfer`: SentEval's transfer tasks on frozen embeddings, one encoding pass and one linear layer per task."""

import dataclasses
import statistics
from collections.abc import Sequence
from typing import Literal

import numpy as np

from cse_train.data_paths import DataPaths
from cse_train.evaluate.tasks import (
    GRADED,
    MORE_TASKS,
    RECIPES,
    TASKS,
    Examples,
    Relatedness,
    Task,
    load_task,
    require_sklearn,
    scorer,
)
from cse_train.evaluate.vectors import TextModel, protocol_of
from cse_train.results import DEV_SUFFIX, Score
from cse_train.text.files import texts_hash

Mode = Literal["test", "dev"]
Classifier = Literal["senteval", "fast"]
NAME = "transfer"
MEMBERS = (*TASKS, *MORE_TASKS)
COLUMNS = (*TASKS, NAME)
DEV_COLUMNS = tuple(f"{column}{DEV_SUFFIX}" for column in COLUMNS)
NEEDS = TASKS


def evaluate(
    model: TextModel,
    paths: DataPaths,
    *,
    protocol: Classifier = "senteval",
    mode: Mode = "test",
    members: Sequence[str] = TASKS,
) -> list[Score]:
    """Returns one score per task, and for all seven their average, named `transfer`.

    `test` gives `accuracy`, `dev` gives `devacc` with SentEval's quicker settings; where labels are grades, `spearman`
    and `devpearson`, for which there is one protocol. The average is that of the rounded values, as the papers print
    it; `details` holds the one of the exact values. No global random state is touched. Raises ConfigError, one line,
    for data that is missing or short, and an absent scikit-learn; all data are read before anything is encoded.
    """
    require_sklearn()
    loaded = [load_task(name, paths) for name in members]
    scores = [_score(model, task, protocol, mode) for task in loaded]
    return [*scores, _average(scores)] if set(members) == set(TASKS) else scores


def evaluate_dev(model: TextModel, paths: DataPaths, *, protocol: Classifier = "senteval") -> list[Score]:
    """Returns the dev accuracy of each task and their average, for decisions during development: mode `dev`."""
    return evaluate(model, paths, protocol=protocol, mode="dev")


def embed_task(model: TextModel, task: Task) -> dict[str, Examples]:
    """Returns each split's features from one encoding pass; of pairs [|u - v|, u * v] (SentEval mrpc.py, sick.py)."""
    sides = [side for split in task.splits.values() for side in split.texts]
    embeddings = model.embed([text for side in sides for text in side])
    blocks = iter(np.split(embeddings, np.cumsum([len(side) for side in sides])[:-1]))
    examples = {}
    for name, split in task.splits.items():
        features = next(blocks)
        if len(split.texts) == 2:
            left, right = features, next(blocks)
            features = np.concatenate([np.abs(left - right), left * right], axis=1)
        examples[name] = Examples(features, split.labels)
    return examples


def _score(model: TextModel, task: Task, protocol: Classifier, mode: Mode) -> Score:
    splits = embed_task(model, task)
    if task.name in GRADED:
        return _score_relatedness(model, task, splits, mode)
    recipe = RECIPES[mode]
    outcome = scorer(protocol)(splits, task.classes, recipe)
    optimiser = f", {recipe.optimiser}" if protocol == "senteval" else ""
    details: dict[str, float] = {"devacc": outcome.devacc}
    value, exact = outcome.devacc, outcome.exact_devacc
    if mode == "test":
        value, exact = outcome.accuracy, outcome.exact_accuracy
        details["accuracy"] = value
        if task.name == "mrpc":
            from sklearn.metrics import f1_score  # an extra, slow to import

            details["f1"] = round(100 * float(f1_score(splits["test"].labels, outcome.predicted, zero_division=0.0)), 2)
    return Score(
        suite=task.name,
        metric="accuracy" if mode == "test" else "devacc",
        value=value,
        protocol=protocol_of(
            model, task.name, mode, task.content_hash, rule=f"{protocol}, {recipe.folds} folds{optimiser}"
        ),
        details=details | {"unrounded": exact},
    )


def _score_relatedness(model: TextModel, task: Task, splits: dict[str, Examples], mode: Mode) -> Score:
    outcome: Relatedness = scorer("relatedness")(splits)
    details = {name: getattr(outcome, name) for name in ("devpearson", "pearson", "spearman", "mse")}
    metric = "spearman" if mode == "test" else "devpearson"
    protocol = protocol_of(model, task.name, mode, task.content_hash, rule="senteval, learned relatedness")
    return Score(suite=task.name, metric=metric, value=details[metric], protocol=protocol, details=details)


def _average(scores: Sequence[Score]) -> Score:
    """Returns the mean of the tasks' rounded values as a score; `details` hold every task's value."""
    first = scores[0]
    parts = texts_hash(sorted(score.protocol.data_hash for score in scores))
    return Score(
        suite=NAME,
        metric=first.metric,
        value=statistics.fmean(score.value for score in scores),
        protocol=dataclasses.replace(first.protocol, suite=NAME, aggregation="mean of rounded", data_hash=parts),
        details={
            "unrounded": statistics.fmean(score.details["unrounded"] for score in scores),
            "tasks": {score.suite: score.value for score in scores},
        },
    )
