"""Evaluation the way of the released code: SentEval's loop over batches, with transformers."""

from collections.abc import Sequence
from typing import Any

from cse_train.evaluate.pairs import Pairs

BATCH = 128
RELEASED = ("sts_train", "sts_dev", "sts_test", "sickr_dev", "sickr_test")
"""What the released evaluation encodes; SICK-R's training pairs, which it encodes too, are left out in its favour."""


def senteval_way(model: Any, tokenizer: Any, sets: Sequence[Pairs]) -> list[float]:
    """The Spearman correlation of each set, by SentEval's batcher and its cosine of one pair at a time."""
    import numpy as np
    from scipy.spatial.distance import cosine
    from scipy.stats import spearmanr

    correlations = []
    for pairs in sets:
        triples = sorted(
            zip(pairs.left, pairs.right, pairs.gold, strict=True), key=lambda triple: tuple(map(len, triple[:2]))
        )
        cosines: list[float] = []
        for first in range(0, len(triples), BATCH):
            left, right, _ = zip(*triples[first : first + BATCH], strict=True)
            sides = [encoded(model, tokenizer, list(side)).numpy() for side in (left, right)]
            cosines += [1 - float(np.nan_to_num(cosine(a, b))) for a, b in zip(*sides, strict=True)]
        correlations.append(100 * float(spearmanr(cosines, [gold for *_, gold in triples])[0]))
    return correlations


def encoded(model: Any, tokenizer: Any, texts: list[str]) -> Any:
    """[CLS] of a batch as the released `batcher` computes it, hidden states of all layers included."""
    import torch

    with torch.no_grad():
        out = model(**tokenizer(texts, return_tensors="pt", padding=True), output_hidden_states=True, return_dict=True)
    return out.last_hidden_state[:, 0].cpu()
