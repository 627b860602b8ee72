"""The dev score that picks a checkpoint: for rated pairs, the Spearman correlation of cosines and ratings.

Labelled sentences: the accuracy of five folds by the protocol `fast`, times 100. Queries: the metric of their set.
"""

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


class SetEvaluator:
    """Evaluates an encoder on a user's dev set, any number of times; the texts are tokenised once."""

    def __init__(self, loaded: Task | Judgements, tokenizer: Any, max_length: int, prompt: str = "") -> None:
        if isinstance(loaded, Task):
            require_sklearn()
            texts = loaded.splits["all"].texts[0]
        else:
            texts = (*loaded.queries, *loaded.documents)
        self.loaded, self.content_hash = loaded, loaded.content_hash
        self.embedder = Embedder(texts, tokenizer, max_length, prompt)

    def __call__(self, encode: Encode, device: str | torch.device = "cpu") -> DevScore:
        """Embeds the texts with an encoder and scores them. Raises NotFinite for NaN or infinity."""
        embeddings_UD = self.embedder(encode, device)
        require_finite(embeddings_UD, self.loaded.name)
        embeddings_ND = embeddings_UD[self.embedder.rows_N]
        if isinstance(self.loaded, Task):
            splits = {"all": Examples(embeddings_ND.astype(np.float32), self.loaded.splits["all"].labels)}
            return DevScore(scorer("fast")(splits, self.loaded.classes, RECIPES["dev"]).exact_devacc)
        queries_QD, documents_CD = np.split(embeddings_ND, [len(self.loaded.queries)])
        return DevScore(scores_of(self.loaded, queries_QD, documents_CD)[self.loaded.metric])


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
    loaded = load_task(name, paths) if kind == "labels" else load_judgements(file)
    return SetEvaluator(loaded, tokenizer, max_length, prompt)
