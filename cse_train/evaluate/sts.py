"""Spearman correlation of cosines with human grades, over all pairs of a set at once (SimCSE's "all").

Shape suffixes: U distinct texts, D embedding size.
"""

from typing import Any

import numpy as np
import torch

from cse_train.evaluate.embedding import Embedder, Encode, require_finite
from cse_train.evaluate.pairs import Pairs
from cse_train.evaluate.vectors import EmbeddedPairs, unit


class StsEvaluator:
    """Evaluates an encoder on one graded set, any number of times; the texts are tokenised once.

    The caller sets eval mode and keeps the training's random state (`evaluating`).
    """

    def __init__(self, pairs: Pairs, tokenizer: Any, max_length: int = 512, prompt: str = "") -> None:
        self.pairs, self.content_hash = pairs, pairs.content_hash
        texts = (*pairs.left, *pairs.right)
        self.texts = tuple(dict.fromkeys(texts))
        """The U distinct texts of the set, in the order of their embeddings."""
        self.embedder = Embedder(texts, tokenizer, max_length, prompt)

    def __call__(self, encode: Encode, device: str | torch.device = "cpu") -> EmbeddedPairs:
        """Encodes this rank's share of the texts, joins all shares, and scores. Raises NotFinite."""
        return self.score(self.embedder(encode, device))

    def score(self, embeddings_UD: np.ndarray) -> EmbeddedPairs:
        """Scores embeddings of the distinct texts, in the order of `texts`. Raises NotFinite for NaN or infinity."""
        require_finite(embeddings_UD, self.pairs.name)
        left_rows, right_rows = np.split(self.embedder.rows_N, 2)
        return EmbeddedPairs(self.pairs, self.texts, unit(embeddings_UD), left_rows, right_rows)
