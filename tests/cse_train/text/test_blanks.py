import numpy as np

from cse_train.text.masking import BLANK, blank_tokens


def test_T23_share_of_blanks_and_where_they_may_be() -> None:
    ids = np.arange(10, 20_010)
    maskable = ids % 10 != 0
    blanked = blank_tokens(ids, maskable, 0.15, np.random.default_rng(0))
    assert np.array_equal(blanked[~maskable], ids[~maskable])
    blank = blanked == BLANK
    assert np.array_equal(blanked[~blank], ids[~blank])
    assert abs(blank.sum() - 0.15 * maskable.sum()) < 3 * (0.15 * 0.85 * maskable.sum()) ** 0.5
