"""Spearman's correlation over resamples of sentence pairs, all resamples at once.

A resample of P pairs is a row of counts: how often each pair was drawn. Ranks follow from cumulated counts in the
order of the values, so that nothing is sorted again. Shape suffixes: B resamples, P pairs, G distinct values.
"""

from collections.abc import Iterator, Sequence

import numpy as np

CHUNK = 200
"""Resamples held in memory at once."""


def draws_of(pairs: int, draws: int, generator: np.random.Generator) -> Iterator[np.ndarray]:
    """Counts [B, P] of `draws` resamples in all, in chunks."""
    for start in range(0, draws, CHUNK):
        yield generator.multinomial(pairs, np.full(pairs, 1 / pairs), size=min(CHUNK, draws - start))


def resampled(
    rows: Sequence[Sequence[np.ndarray]], gold: np.ndarray, draws: int, generator: np.random.Generator
) -> np.ndarray:
    """Spearman's correlation times 100, mean over a row's seeds, as float64 [rows, draws].

    `rows`: for each row the cosines [P] of each of its seeds; every row sees the same resamples. A resample in which
    one side is constant counts as 0.
    """
    graded = Ranks(gold)
    ranked = [[Ranks(cosines) for cosines in seeds] for seeds in rows]
    parts = []
    for counts_BP in draws_of(len(gold), draws, generator):
        gold_BP = graded.centred(counts_BP)
        parts.append([np.mean([correlation(ranks, gold_BP, counts_BP) for ranks in seeds], axis=0) for seeds in ranked])
    return np.concatenate([np.asarray(part) for part in parts], axis=1)


class Ranks:
    """One list of values, ready to be ranked within any resample of it."""

    def __init__(self, values_P: np.ndarray) -> None:
        _, self._group_P = np.unique(values_P, return_inverse=True)
        self._order_P = np.argsort(self._group_P, kind="stable")
        self._starts_G = np.flatnonzero(np.diff(self._group_P[self._order_P], prepend=-1))

    def centred(self, counts_BP: np.ndarray) -> np.ndarray:
        """Average ranks [B, P] of the drawn pairs, less their mean; what was not drawn has a number without meaning."""
        drawn_BG = np.add.reduceat(counts_BP[:, self._order_P], self._starts_G, axis=1)
        ranks_BG = np.cumsum(drawn_BG, axis=1) - (drawn_BG - 1) / 2
        return ranks_BG[:, self._group_P] - (counts_BP.sum(axis=1, keepdims=True) + 1) / 2


def correlation(ranks: Ranks, gold_BP: np.ndarray, counts_BP: np.ndarray) -> np.ndarray:
    """Spearman's correlation times 100 in each resample [B]; 0 where one side is constant."""
    ours_BP = ranks.centred(counts_BP)
    covariance = np.einsum("bp,bp,bp->b", counts_BP, ours_BP, gold_BP)
    ours, theirs = (np.einsum("bp,bp,bp->b", counts_BP, side, side) for side in (ours_BP, gold_BP))
    scale = np.sqrt(ours * theirs)
    return 100 * np.divide(covariance, scale, out=np.zeros_like(covariance), where=scale > 0)
