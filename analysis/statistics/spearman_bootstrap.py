"""Spearman's correlation over resamples of sentence pairs, all resamples at once.

A resample of P pairs is a column of counts: how often each pair was drawn. Ranks follow from cumulated counts in the
order of the values, so that nothing is sorted again. Counts, and ranks times 2, are whole numbers below 2^53 in all
sums, so float64 holds them exactly. Shape suffixes: P pairs, B resamples, T pairs with a value that others have too, G
values of such pairs, K rows of a block.
"""

from collections.abc import Iterator, Sequence

import numpy as np

RESAMPLES_A_TASK = 64
"""Number of resamples in memory at once: 1,500 pairs of them fit into a core's cache."""
RESAMPLES_AT_ONCE = 32
"""Rows cumulated by one small matrix product, which takes half the time of numpy.cumsum along that axis."""
HALF_BEFORE_KK = np.tril(np.ones((RESAMPLES_AT_ONCE, RESAMPLES_AT_ONCE))) - np.eye(RESAMPLES_AT_ONCE) / 2
"""Matrix that sums all counts before a row and half of the row's own count."""


def draw_counts(pairs: int, draws: int, generator: np.random.Generator) -> Iterator[np.ndarray]:
    """Yields counts [P, B] of `draws` resamples in all, in chunks."""
    for start in range(0, draws, RESAMPLES_A_TASK):
        drawn_BP = generator.multinomial(pairs, np.full(pairs, 1 / pairs), size=min(RESAMPLES_A_TASK, draws - start))
        yield np.ascontiguousarray(drawn_BP.T, dtype=float)


def resample_pairs(
    rows: Sequence[Sequence[np.ndarray]], gold: np.ndarray, draws: int, generator: np.random.Generator
) -> np.ndarray:
    """Returns Spearman's correlation times 100, mean over a row's seeds, as float64 [rows, draws].

    `rows` holds for each row the cosines [P] of each of its seeds; every row sees the same resamples. A resample in
    which one side is constant counts as 0.
    """
    graded = Order(gold)
    ordered = [[Order(cosines) for cosines in seeds] for seeds in rows]
    parts = []
    for counts_PB in draw_counts(len(gold), draws, generator):
        graded_PB, graded_spread_B = graded.ranks(counts_PB)
        deviations_PB = np.empty_like(graded_PB)
        deviations_PB[graded.order_P] = graded_PB - len(gold) / 2
        deviations_PB *= counts_PB
        parts.append(
            [
                np.mean([correlation(order, counts_PB, deviations_PB, graded_spread_B) for order in seeds], axis=0)
                for seeds in ordered
            ]
        )
    return np.concatenate([np.asarray(part) for part in parts], axis=1)


class Order:
    """One list of values [P] in ascending order, prepared for ranking within any resample."""

    def __init__(self, values_P: np.ndarray) -> None:
        self.order_P = np.argsort(values_P, kind="stable")
        _, first_of, group_P, sizes = np.unique(
            values_P[self.order_P], return_index=True, return_inverse=True, return_counts=True
        )
        shared = sizes > 1
        self._first_G = first_of[shared]
        self._last_G = self._first_G + sizes[shared] - 1
        self._tied_T = np.flatnonzero(shared[group_P])
        self._group_T = (np.cumsum(shared) - 1)[group_P[self._tied_T]]

    def ranks(self, counts_PB: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns average ranks less 1/2 [P, B] in ascending order, and the ranks' sum of squared deviations [B]."""
        pairs = len(counts_PB)
        drawn_PB = np.zeros((-(-pairs // RESAMPLES_AT_ONCE) * RESAMPLES_AT_ONCE, counts_PB.shape[1]))
        drawn_PB[:pairs] = counts_PB[self.order_P]
        ranks_PB = _middles(drawn_PB)[:pairs]
        cubes_B = np.einsum("pb,pb,pb->b", drawn_PB, drawn_PB, drawn_PB)
        if len(self._tied_T):
            tied_TB = drawn_PB[self._tied_T]
            before_GB = ranks_PB[self._first_G] - drawn_PB[self._first_G] / 2
            up_to_GB = ranks_PB[self._last_G] + drawn_PB[self._last_G] / 2
            ranks_PB[self._tied_T] = ((before_GB + up_to_GB) / 2)[self._group_T]
            together_GB = up_to_GB - before_GB
            cubes_B += np.einsum("gb,gb,gb->b", together_GB, together_GB, together_GB)
            cubes_B -= np.einsum("tb,tb,tb->b", tied_TB, tied_TB, tied_TB)
        return ranks_PB, (float(pairs) ** 3 - cubes_B) / 12


def _middles(drawn_PB: np.ndarray) -> np.ndarray:
    """Returns for each pair all counts before it plus half of its own; P must be a multiple of RESAMPLES_AT_ONCE."""
    blocks = drawn_PB.reshape(-1, RESAMPLES_AT_ONCE, drawn_PB.shape[1])
    middles: np.ndarray = np.matmul(HALF_BEFORE_KK, blocks)
    middles[1:] += np.cumsum(middles[:-1, -1] + blocks[:-1, -1] / 2, axis=0)[:, None]
    return middles.reshape(drawn_PB.shape)


def correlation(
    order: Order, counts_PB: np.ndarray, deviations_PB: np.ndarray, graded_spread_B: np.ndarray
) -> np.ndarray:
    """Returns Spearman's correlation times 100 in each resample [B]; 0 where one side is constant.

    `deviations_PB` are the grades' ranks less their mean, times the counts; they sum to 0, so the cosines' ranks need
    no centring.
    """
    ranks_PB, spread_B = order.ranks(counts_PB)
    covariance = np.einsum("pb,pb->b", deviations_PB[order.order_P], ranks_PB)
    scale = np.sqrt(spread_B * graded_spread_B)
    shares: np.ndarray = np.divide(covariance, scale, out=np.zeros_like(covariance), where=scale > 0)
    return 100 * shares
