"""A graded set with one unit vector for every distinct text: what cosines, neighbours and geometry start from.

Shape suffixes: U distinct texts, P pairs, D embedding size.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cse_train.evaluate.correlation import find_unranked, round_cosines, spearman
from cse_train.evaluate.pairs import Pairs

Embed = Callable[[Sequence[str]], np.ndarray]
"""Texts -> [texts, D]."""


def unit(embeddings_ND: np.ndarray) -> np.ndarray:
    """Rows scaled to length 1 in fp64; a zero row stays zero, so that its cosines are 0 as in SentEval."""
    rows_ND = np.asarray(embeddings_ND, dtype=np.float64)
    norms = np.linalg.norm(rows_ND, axis=1, keepdims=True)
    scaled: np.ndarray = rows_ND / np.where(norms == 0, 1.0, norms)
    return scaled


@dataclass(frozen=True)
class EmbeddedPairs:
    """Pair p joins the distinct texts `left_rows[p]` and `right_rows[p]`."""

    pairs: Pairs
    texts: tuple[str, ...]
    """The U distinct texts, in order of first appearance (left column first)."""
    unit_UD: np.ndarray
    """float64, rows of length 1."""
    left_rows: np.ndarray
    """int64 [P]."""
    right_rows: np.ndarray
    """int64 [P]."""

    @cached_property
    def cosines(self) -> np.ndarray:
        """float64 [P], as they are ranked."""
        return round_cosines(np.einsum("pd,pd->p", self.unit_UD[self.left_rows], self.unit_UD[self.right_rows]))

    @property
    def spearman(self) -> float:
        """The correlation of the cosines with the grades of all pairs, times 100; NaN where they have none."""
        return spearman(self.cosines, self.pairs.gold)

    @property
    def value(self) -> float:
        """The score of a dev evaluation."""
        return self.spearman

    @property
    def unscored(self) -> str:
        """Why there is no score; empty where there is one."""
        return find_unranked(self.cosines, self.pairs.gold)

    @property
    def sentences(self) -> np.ndarray:
        """int64 [2 P]: the distinct text of every sentence of the set, left column first."""
        return np.concatenate([self.left_rows, self.right_rows])


def embed_pairs(embed: Embed, pairs: Pairs) -> EmbeddedPairs:
    """Embed each distinct text of a set once."""
    texts = tuple(dict.fromkeys((*pairs.left, *pairs.right)))
    row_of = {text: row for row, text in enumerate(texts)}
    left_rows, right_rows = (np.array([row_of[text] for text in side]) for side in (pairs.left, pairs.right))
    return EmbeddedPairs(pairs, texts, unit(embed(texts)), left_rows, right_rows)
