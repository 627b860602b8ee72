"""Spearman correlation of cosines with human grades, over all pairs of a set at once (reference_spec C1, "all").

Shape suffixes: U distinct texts, D embedding size.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.stats import rankdata

from cse_train.evaluate.embedding import Embedder, Encode, require_finite
from cse_train.evaluate.pairs import Pairs


def cosines(embeddings_UD: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Cosine in fp64; 0 where an embedding is zero, as SentEval's NaN -> 0."""
    norms = np.linalg.norm(embeddings_UD, axis=1, keepdims=True)
    unit_UD = embeddings_UD / np.where(norms == 0, 1.0, norms)
    return np.einsum("pd,pd->p", unit_UD[left], unit_UD[right])


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman correlation times 100 with average ranks for ties; 0 when either side is constant and ranks nothing."""
    ranks = [rankdata(values) for values in (a, b)]
    centred = [values - values.mean() for values in ranks]
    scale = float(np.linalg.norm(centred[0]) * np.linalg.norm(centred[1]))
    return 100.0 * float(centred[0] @ centred[1]) / scale if scale else 0.0


@dataclass(frozen=True)
class StsScore:
    """What one evaluation found."""

    spearman: float
    """Times 100."""
    cosines: np.ndarray
    """float64 [pairs], in the order of the set."""


class StsEvaluator:
    """Scores an encoder on one set, again and again: `Embedder` says what is shared and what is kept.

    The caller sets eval mode and keeps the training's random state (`evaluating`).
    """

    def __init__(self, pairs: Pairs, tokenizer: Any, max_length: int = 512) -> None:
        self.pairs = pairs
        self.embedder = Embedder((*pairs.left, *pairs.right), tokenizer, max_length)
        self.left_rows, self.right_rows = np.split(self.embedder.rows_N, 2)

    def __call__(self, encode: Encode, device: str | torch.device = "cpu") -> StsScore:
        """Encode this rank's share, join all shares, and score. Raises NotFinite when an embedding is not."""
        return self.score(self.embed(encode, device))

    def score(self, embeddings_UD: np.ndarray) -> StsScore:
        """Score embeddings of the distinct texts, in their order. Raises NotFinite when one is not."""
        require_finite(embeddings_UD, self.pairs.name)
        found = cosines(embeddings_UD, self.left_rows, self.right_rows)
        return StsScore(spearman(found, self.pairs.gold), found)

    def embed(self, encode: Encode, device: str | torch.device = "cpu") -> np.ndarray:
        """float64 [U, D] of the distinct texts, the same on every rank."""
        return self.embedder(encode, device)
