import numpy as np
import pytest
from scipy.stats import chisquare

from cse_train.text.masking import mask_tokens

MASK, VOCAB = 4, 1000


def masked(ratio: float = 0.15, size: int = 40_000) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    ids = np.full(size, 7)
    maskable = np.arange(size) % 10 > 0
    out, chosen = mask_tokens(ids, maskable, ratio=ratio, mask_id=MASK, vocab_size=VOCAB, rng=np.random.default_rng(0))
    return ids, maskable, out, chosen


def test_T23_share_of_chosen_positions_and_specials_untouched() -> None:
    ids, maskable, out, chosen = masked()
    count = maskable.sum()
    assert abs(chosen.sum() - 0.15 * count) < 3 * np.sqrt(count * 0.15 * 0.85)
    assert not chosen[~maskable].any()
    assert np.array_equal(out[~chosen], ids[~chosen])


def test_T23_eighty_ten_ten() -> None:
    _, _, out, chosen = masked()
    by_mask, kept = int((out[chosen] == MASK).sum()), int((out[chosen] == 7).sum())
    observed = np.array([by_mask, kept, chosen.sum() - by_mask - kept])
    assert chisquare(observed, chosen.sum() * np.array([0.8, 0.1, 0.1])).pvalue > 1e-3


@pytest.mark.parametrize("ratio", [0.0, 1.0, -0.1])
def test_ratio_must_be_a_share(ratio: float) -> None:
    with pytest.raises(ValueError, match=f"^masking: ratio={ratio}"):
        masked(ratio, 10)
