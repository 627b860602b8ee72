"""Spearman correlation of cosines with human grades, over all pairs of a set at once (reference_spec C1, "all").

Shape suffixes: U distinct texts, D embedding size.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.stats import rankdata
from torch import Tensor

from cse_train import distributed
from cse_train.evaluate.pairs import Pairs, load_pairs, suite_names
from cse_train.modules.packing import Packed, pack
from cse_train.text.tokens import tokenise

__all__ = ["Pairs", "StsEvaluator", "StsScore", "load_pairs", "spearman", "suite_names"]

ROWS = 128
SLOTS = 8192
"""A batch holds at most ROWS texts and about SLOTS tokens, so that 512-token texts do not need 40 times the memory."""

Encode = Callable[[Packed], Tensor]


@dataclass(frozen=True)
class StsScore:
    """What one evaluation found."""

    spearman: float
    """Times 100."""
    cosines: np.ndarray
    """float64 [pairs], in the order of the set."""


class NotFinite(ValueError):
    """Embeddings hold NaN or infinity: the run diverged."""


class StsEvaluator:
    """Scores an encoder on one set. Texts are tokenised once; every distinct text is encoded once per call.

    The batches depend on the set alone and are dealt to the ranks in turn, so that every world size computes the
    same numbers. The caller sets eval mode and keeps the training's random state.
    """

    def __init__(self, pairs: Pairs, tokenizer: Any, max_length: int = 512) -> None:
        self.pairs = pairs
        self.max_length = max_length
        texts = list(dict.fromkeys((*pairs.left, *pairs.right)))
        row_of = {text: row for row, text in enumerate(texts)}
        self.left_rows = np.array([row_of[text] for text in pairs.left])
        self.right_rows = np.array([row_of[text] for text in pairs.right])
        self.pad_id = tokenizer.pad_token_id or 0
        flat, self.lengths, _ = tokenise(texts, tokenizer, max_length)
        self.flat = flat.astype(np.int64)
        self.batches = _batches(self.lengths)
        self.packed: dict[int, Packed] = {}

    def __call__(self, encode: Encode, device: str | torch.device = "cpu") -> StsScore:
        """Encode this rank's share, join all shares, and score. Raises NotFinite when an embedding is not."""
        return self.score(self.embed(encode, device))

    def score(self, embeddings_UD: np.ndarray) -> StsScore:
        """Score embeddings of the distinct texts, in their order. Raises NotFinite when one is not."""
        bad = int((~np.isfinite(embeddings_UD).all(axis=1)).sum())
        if bad:
            rule = f"not finite: {bad} of {len(embeddings_UD)} embeddings of {self.pairs.name} are NaN or infinite"
            raise NotFinite(f"{rule}; lower train.learning_rate")
        cosines = _cosines(embeddings_UD, self.left_rows, self.right_rows)
        return StsScore(spearman(cosines, self.pairs.gold), cosines)

    def embed(self, encode: Encode, device: str | torch.device = "cpu") -> np.ndarray:
        """float64 [U, D] of the distinct texts, the same on every rank."""
        size = distributed.size()
        with torch.inference_mode():
            mine = [encode(self._pack(at).to(device)).float() for at in self._share(distributed.rank(), size)]
            joined = distributed.all_gather_rows(torch.cat(mine)).cpu().double().numpy()
        rows = np.concatenate([self.batches[at] for rank in range(size) for at in self._share(rank, size)])
        embeddings_UD = np.empty((len(self.lengths), joined.shape[1]))
        embeddings_UD[rows] = joined
        return embeddings_UD

    def _share(self, rank: int, size: int) -> list[int]:
        """A rank's batches; one that would have none repeats the first, so that it takes part in the gather."""
        return list(range(rank, len(self.batches), size)) or [0]

    def _pack(self, at: int) -> Packed:
        if at not in self.packed:
            rows = self.batches[at]
            starts = np.cumsum(self.lengths) - self.lengths
            self.packed[at] = pack(self.flat, starts[rows], self.lengths[rows], pad_id=self.pad_id, groups=2)
        return self.packed[at]


def _batches(lengths: np.ndarray) -> list[np.ndarray]:
    """Rows by length, cut where a batch is full."""
    order = np.argsort(lengths, kind="stable")
    batches, first = [], 0
    while first < len(order):
        count = min(ROWS, len(order) - first)
        while count > 1 and count * lengths[order[first + count - 1]] > SLOTS:
            count -= 1
        batches.append(order[first : first + count])
        first += count
    return batches


def _cosines(embeddings_UD: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
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
