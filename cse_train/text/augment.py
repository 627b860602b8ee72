"""Views made by editing token ids."""

import numpy as np

RULES = ("paper", "released")


def repeat_subwords(ids: np.ndarray, rate: float, rng: np.random.Generator, rule: str = "paper") -> np.ndarray:
    """Double some sub-words in place; [CLS] and [SEP] never. ids: int [L], special tokens at both ends.

    paper (ESimCSE eq. 3-4): dup_len ~ U{0 .. max(2, int(rate * N))} of the N = L - 2 sub-words, at most N.
    released (ESimCSE train.py:498-531): dup_len ~ U{0 .. min(10, int(rate * L)) - 1}, so that at rate 0.08 a sentence
    of fewer than 24 tokens never changes. Both draw the positions without replacement. `rate` 0 is off.
    """
    assert rule in RULES, rule
    subwords = len(ids) - 2
    if rate == 0 or subwords < 1:
        return ids
    bound = max(2, int(rate * subwords)) if rule == "paper" else min(10, int(rate * len(ids))) - 1
    if bound < 1:
        return ids
    dup_len = min(int(rng.integers(0, bound + 1)), subwords)
    times = np.ones(len(ids), dtype=np.int64)
    times[1 + rng.choice(subwords, dup_len, replace=False)] = 2
    return np.repeat(ids, times)
