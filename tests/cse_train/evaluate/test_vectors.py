"""Unit rows and cosines of a set against plain loops."""

import numpy as np
import pytest

from cse_train.evaluate.correlation import pearson, spearman
from cse_train.evaluate.pairs import Pairs
from cse_train.evaluate.vectors import embed_pairs, unit


def test_unit_rows_and_a_zero_row() -> None:
    rows = unit(np.array([[3, 4], [0, 0], [1e-30, 0]], dtype=np.float32))
    np.testing.assert_allclose(rows, [[0.6, 0.8], [0, 0], [1, 0]])
    assert rows.dtype == np.float64


def test_each_distinct_text_is_embedded_once_and_cosines_equal_a_loop(pairs: Pairs) -> None:
    asked: list[str] = []
    vectors = np.random.default_rng(0).normal(size=(200, 5)).astype(np.float32)

    def embed(texts: object) -> np.ndarray:
        asked.extend(texts)  # type: ignore[arg-type]
        return vectors[: len(asked)]

    found = embed_pairs(embed, pairs)
    assert len(asked) == len(set(asked)) == len({*pairs.left, *pairs.right})
    of = dict(zip(asked, vectors.astype(float), strict=False))
    for at, (a, b) in enumerate(zip(pairs.left, pairs.right, strict=True)):
        expected = of[a] @ of[b] / np.sqrt((of[a] @ of[a]) * (of[b] @ of[b]))
        assert found.cosines[at] == pytest.approx(expected, abs=5.1e-7)
    assert [found.texts[row] for row in found.sentences] == [*pairs.left, *pairs.right]


@pytest.mark.parametrize("correlation", [pearson, spearman])
@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_a_correlation_of_no_numbers_is_an_error_and_not_a_score(correlation, odd: float) -> None:
    numbers = np.array([1.0, 2.0, odd])
    for pair in ((numbers, np.arange(3.0)), (np.arange(3.0), numbers)):
        with pytest.raises(ValueError, match=r"^not finite: a .*correlation"):
            correlation(*pair)
