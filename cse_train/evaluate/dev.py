"""The dev score that picks a checkpoint: for rated pairs, the Spearman correlation of cosines and ratings.

Labelled sentences: the accuracy of five folds by the protocol `fast`, times 100. Queries: the metric of their set.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from cse_train.data_paths import DataPaths
from cse_train.evaluate.embedding import Embedder, Encode, StsEvaluator, require_finite
from cse_train.evaluate.judgements import Judgements, load_judgements, scores_of
from cse_train.evaluate.pairs import load_pairs
from cse_train.evaluate.tasks import RECIPES, Examples, Task, load_task, require_sklearn, scorer
from cse_train.evaluate.user_sets import open_user_file
from cse_train.fields import ConfigError


@dataclass(frozen=True)
class DevScore:
    """Result of one evaluation on a dev set."""

    value: float
    unscored: str = ""
    """Reason why `value` is NaN; empty where there is a value."""


class SetEvaluator(ABC):
    """Evaluates an encoder on a user's dev set, any number of times; the texts are tokenised once."""

    content_hash: str

    def __init__(self, name: str, texts: list[str], tokenizer: Any, max_length: int, prompt: str = "") -> None:
        self.name, self.embedder = name, Embedder(texts, tokenizer, max_length, prompt)

    def __call__(self, encode: Encode, device: str | torch.device = "cpu") -> DevScore:
        """Embeds the texts with an encoder and scores them. Raises NotFinite for NaN or infinity."""
        embeddings_UD = self.embedder(encode, device)
        require_finite(embeddings_UD, self.name)
        return DevScore(self.score(embeddings_UD[self.embedder.rows_N]))

    @abstractmethod
    def score(self, embeddings_ND: np.ndarray) -> float:
        """Returns the set's score, the higher the better; rows are the texts in the order given to the constructor."""


class LabelsEvaluator(SetEvaluator):
    """Dev evaluator for labelled sentences: accuracy of a classifier on the embeddings."""

    def __init__(self, task: Task, tokenizer: Any, max_length: int, prompt: str = "") -> None:
        require_sklearn()
        (split,) = task.splits.values()
        super().__init__(task.name, list(split.texts[0]), tokenizer, max_length, prompt)
        self.task, self.labels, self.content_hash = task, split.labels, task.content_hash

    def score(self, embeddings_ND: np.ndarray) -> float:
        splits = {"all": Examples(embeddings_ND.astype(np.float32), self.labels)}
        devacc: float = scorer("fast")(splits, self.task.classes, RECIPES["dev"]).exact_devacc
        return devacc


class JudgementsEvaluator(SetEvaluator):
    """Dev evaluator for queries with judged documents: the retrieval metric that the set names."""

    def __init__(self, judgements: Judgements, tokenizer: Any, max_length: int, prompt: str = "") -> None:
        super().__init__(judgements.name, [*judgements.queries, *judgements.documents], tokenizer, max_length, prompt)
        self.judgements, self.content_hash = judgements, judgements.content_hash

    def score(self, embeddings_ND: np.ndarray) -> float:
        queries_QD, documents_CD = np.split(embeddings_ND, [len(self.judgements.queries)])
        return scores_of(self.judgements, queries_QD, documents_CD)[self.judgements.metric]


DevEvaluator = StsEvaluator | SetEvaluator


def dev_evaluator(name: str, paths: DataPaths, tokenizer: Any, max_length: int, prompt: str = "") -> DevEvaluator:
    """Returns the evaluator for the set that `train.dev` names; calling it gives an object whose `value` is the score.

    ConfigError: an unknown or missing set, or a user's test set.
    """
    file = paths.data_set(name)
    if file is not None and file.role == "test":
        raise ConfigError([f"test set as dev: train.dev={name} is for evaluate:; give another file as dev"])
    kind = "ratings" if file is None else open_user_file(file).kind
    if file is None or kind == "ratings":
        return StsEvaluator(load_pairs(name, paths), tokenizer, max_length, prompt)
    if kind == "labels":
        return LabelsEvaluator(load_task(name, paths), tokenizer, max_length, prompt)
    return JudgementsEvaluator(load_judgements(file), tokenizer, max_length, prompt)
