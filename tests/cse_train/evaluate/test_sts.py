"""STS: unit rows and cosines against plain loops, and means over years."""

import math
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import Tensor

from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import Backbone
from cse_train.encoder.packing import Packed, pack_lists
from cse_train.evaluate import embedding
from cse_train.evaluate.correlation import pearson, spearman
from cse_train.evaluate.embedding import StsEvaluator
from cse_train.evaluate.pairs import Pairs, load_pairs
from cse_train.evaluate.vectors import embed_pairs, unit
from tests.cse_train.evaluate.two_ranks import require_ranks_as_one


def one_by_one(backbone: Backbone, pairs: Pairs) -> np.ndarray:
    """Cosines with every text encoded alone."""

    def embed(text: str) -> np.ndarray:
        ids = backbone.tokenizer(text, truncation=True, max_length=64)["input_ids"]
        with torch.no_grad():
            return backbone.encoder(pack_lists([ids])).cls_VNH[0, 0].double().numpy()

    made = [(embed(a), embed(b)) for a, b in zip(pairs.left, pairs.right, strict=True)]
    return np.array([a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in made])


def cls(backbone: Backbone):
    return lambda packed: backbone.encoder(packed).cls_VNH[0]


def test_equals_every_text_alone(backbone: Backbone, pairs: Pairs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "EMBEDDED_ROWS", 16)
    found = StsEvaluator(pairs, backbone.tokenizer, 64)(cls(backbone))
    expected = one_by_one(backbone, pairs)
    np.testing.assert_allclose(found.cosines, expected, atol=1e-5)
    assert found.cosines.dtype == np.float64
    assert found.spearman == pytest.approx(100 * spearmanr(found.cosines, pairs.gold).statistic, abs=1e-9)


def test_each_distinct_text_is_encoded_once(backbone: Backbone, pairs: Pairs) -> None:
    seen: list[int] = []

    def encode(packed: Packed) -> Tensor:
        seen.append(packed.rows)
        return torch.ones(packed.rows, 2)

    StsEvaluator(pairs, backbone.tokenizer, 64)(encode)
    assert sum(seen) == len({*pairs.left, *pairs.right}) < 2 * len(pairs)


def test_long_texts_make_small_batches() -> None:
    lengths = np.array([512] * 40 + [10] * 300)
    batches = embedding.batches_of(lengths)
    assert sorted(np.concatenate(batches)) == list(range(340))
    assert max(len(rows) for rows in batches) == embedding.EMBEDDED_ROWS
    assert max(len(rows) * lengths[rows].max() for rows in batches) <= embedding.EMBEDDED_SLOTS


def test_truncates_to_max_length(backbone: Backbone, pairs: Pairs) -> None:
    assert StsEvaluator(pairs, backbone.tokenizer, 6).embedder.lengths.max() == 6


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_embeddings_that_are_not_finite_raise_one_line(value: float, backbone: Backbone, pairs: Pairs) -> None:
    def encode(packed: Packed) -> Tensor:
        rows = torch.ones(packed.rows, 3)
        rows[0, 1] = value
        return rows

    with pytest.raises(ValueError, match=r"^not finite: \d+ of \d+ embeddings of made") as error:
        StsEvaluator(pairs, backbone.tokenizer, 64)(encode)
    assert "\n" not in str(error.value)


def test_zero_and_constant_embeddings_have_no_score(backbone: Backbone, pairs: Pairs) -> None:
    evaluator = StsEvaluator(pairs, backbone.tokenizer, 64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for value in (0.0, 1.0):
            found = evaluator(lambda packed, value=value: torch.full((packed.rows, 4), value))
            assert math.isnan(found.value) and found.unscored.startswith("the cosines of its ")
            np.testing.assert_allclose(found.cosines, value, atol=1e-12)


def test_spearman_with_ties_is_scipys() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 5, 200), rng.integers(0, 4, 200) + rng.integers(0, 5, 200)
    assert spearman(a, b) == pytest.approx(100 * spearmanr(a, b).statistic, abs=1e-9)
    assert spearman(np.array([1, 2, 3]), np.array([1, 3, 2])) == pytest.approx(50)


def test_all_is_one_correlation_over_all_subsets_and_not_their_mean(data_dir: Path, backbone: Backbone) -> None:
    pairs = load_pairs("sts13", DataPaths.from_folder(data_dir))
    found = StsEvaluator(pairs, backbone.tokenizer, 32)(cls(backbone))
    by_subset = np.split(np.arange(1500), [189, 189 + 750])
    mean = np.mean([spearman(found.cosines[at], pairs.gold[at]) for at in by_subset])
    assert found.spearman == pytest.approx(100 * spearmanr(found.cosines, pairs.gold).statistic)
    assert abs(found.spearman - mean) > 0.1


@pytest.mark.parametrize("rows", [16, 1000])
def test_two_ranks_equal_one_process(rows: int, backbone: Backbone, pairs: Pairs, tmp_path: Path, monkeypatch) -> None:
    """With one batch for two ranks as well: the second rank repeats it."""
    monkeypatch.setattr(embedding, "EMBEDDED_ROWS", rows)
    require_ranks_as_one(lambda: StsEvaluator(pairs, backbone.tokenizer, 64)(cls(backbone)), tmp_path)


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
