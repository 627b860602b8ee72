"""Spearman's correlation over resamples of sentence pairs, all resamples at once.

A resample of P pairs is a column of counts: how often each pair was drawn. Ranks follow from cumulated counts in the
order of the values, so that nothing is sorted again. Counts, and ranks times 2, are whole numbers below 2^53 in all
sums, so float64 holds them exactly. Shape suffixes: P pairs, B resamples, G distinct values.
"""

from collections.abc import Iterator, Sequence

import numpy as np

CHUNK = 64
"""Resamples held at once: 1,500 pairs of them stay in a core's cache."""


def draws_of(pairs: int, draws: int, generator: np.random.Generator) -> Iterator[np.ndarray]:
    """Counts [P, B] of `draws` resamples in all, in chunks."""
    for start in range(0, draws, CHUNK):
        drawn_BP = generator.multinomial(pairs, np.full(pairs, 1 / pairs), size=min(CHUNK, draws - start))
        yield np.ascontiguousarray(drawn_BP.T, dtype=float)


def resampled(
    rows: Sequence[Sequence[np.ndarray]], gold: np.ndarray, draws: int, generator: np.random.Generator
) -> np.ndarray:
    """Spearman's correlation times 100, mean over a row's seeds, as float64 [rows, draws].

    `rows`: for each row the cosines [P] of each of its seeds; every row sees the same resamples. A resample in which
    one side is constant counts as 0.
    """
    graded = Groups(gold)
    grouped = [[Groups(cosines) for cosines in seeds] for seeds in rows]
    parts = []
    for counts_PB in draws_of(len(gold), draws, generator):
        gold_GB, gold_spread_B = graded.ranks(counts_PB)
        weighted_PB = counts_PB * (gold_GB[graded.of_pair] - (len(gold) / 2))
        parts.append(
            [
                np.mean([correlation(one, counts_PB, weighted_PB, gold_spread_B) for one in seeds], axis=0)
                for seeds in grouped
            ]
        )
    return np.concatenate([np.asarray(part) for part in parts], axis=1)


class Groups:
    """One list of values [P] as groups of equal ones in ascending order, ready to be ranked within any resample."""

    def __init__(self, values_P: np.ndarray) -> None:
        _, self.of_pair = np.unique(values_P, return_inverse=True)
        self._order_P = np.argsort(self.of_pair, kind="stable")
        self._starts_G = np.flatnonzero(np.diff(self.of_pair[self._order_P], prepend=-1))

    def sums(self, values_PB: np.ndarray) -> np.ndarray:
        """Each group's sum [G, B]."""
        sorted_PB = values_PB[self._order_P]
        return sorted_PB if len(self._starts_G) == len(sorted_PB) else np.add.reduceat(sorted_PB, self._starts_G)

    def ranks(self, counts_PB: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Average ranks less 1/2 [G, B], and the sum of their squared deviations [B] over the drawn pairs."""
        drawn_GB = self.sums(counts_PB)
        ranks_GB = np.cumsum(drawn_GB, axis=0)
        ranks_GB -= drawn_GB / 2
        spread_B = (float(len(counts_PB)) ** 3 - np.einsum("gb,gb,gb->b", drawn_GB, drawn_GB, drawn_GB)) / 12
        return ranks_GB, spread_B


def correlation(
    groups: Groups, counts_PB: np.ndarray, weighted_PB: np.ndarray, gold_spread_B: np.ndarray
) -> np.ndarray:
    """Spearman's correlation times 100 in each resample [B]; 0 where one side is constant.

    `weighted_PB`: the gold ranks less their mean, times the counts; they sum to 0, so ours need no centring.
    """
    ranks_GB, spread_B = groups.ranks(counts_PB)
    covariance = np.einsum("gb,gb->b", groups.sums(weighted_PB), ranks_GB)
    scale = np.sqrt(spread_B * gold_spread_B)
    return 100 * np.divide(covariance, scale, out=np.zeros_like(covariance), where=scale > 0)
