"""The held-out report against its definition."""

import numpy as np
import pytest
import torch

from cse_train.pretrain.config import PretrainConfig, bert_config
from cse_train.pretrain.corpus import Corpus
from cse_train.pretrain.evaluation import report_held_out
from cse_train.pretrain.run import MaskedLM, Run

CONFIG = PretrainConfig(layers=1, width=16, max_positions=128, held_out=60, batch_documents=2, long_share=1.0)


@pytest.fixture
def corpus() -> Corpus:
    rng = np.random.default_rng(0)
    lengths = rng.integers(5, 40, 200)
    flat = rng.integers(5, 50, lengths.sum()).astype(np.int32)
    return Corpus(flat, np.cumsum(lengths) - lengths, lengths, cls_id=2, sep_id=3, mask_id=4, vocab_size=50)


@pytest.fixture
def model() -> MaskedLM:
    return MaskedLM(bert_config(CONFIG, 50), torch.Generator().manual_seed(0))


def test_bands_make_up_the_whole(model, corpus):
    report = report_held_out(model, corpus, CONFIG)
    bands = [band for band in report["bands"] if band["predictions"]]
    assert [(band["from"], band["to"]) for band in bands] == [(0, 64), (64, 128)]
    total = sum(band["predictions"] for band in bands)
    text = int(corpus.lengths[-60:].sum())
    assert abs(total - 0.2 * (text - text % 126)) < 4 * (0.16 * text) ** 0.5
    for name in ("loss", "accuracy"):
        mean = sum(band["predictions"] * band[name] for band in bands) / total
        assert report[name] == pytest.approx(mean, abs=2e-4)
    assert report["loss"] == pytest.approx(np.log(50), abs=0.1)


def test_a_model_that_knows_the_answer_scores_it(model, corpus):
    """A constant text and a head that always says its word: loss 0, accuracy 1."""
    corpus.flat[:] = 7
    with torch.no_grad():
        model.head.bias.zero_()
        model.head.bias[7] = 100.0
    report = report_held_out(model, corpus, CONFIG)
    assert (report["loss"], report["accuracy"]) == (0.0, 1.0)
    assert report["single_sentences"]["accuracy"] == 1.0


def test_it_repeats_and_leaves_mode_and_random_state(model, corpus):
    model.train()
    before = torch.get_rng_state()
    assert report_held_out(model, corpus, CONFIG) == report_held_out(model, corpus, CONFIG)
    assert torch.equal(before, torch.get_rng_state()) and model.training


def test_every_position_is_trained(corpus):
    run = Run.start(CONFIG, corpus)
    start = run.model.encoder.position.weight.detach().clone()
    run.train_until(2000)
    moved = (run.model.encoder.position.weight - start).abs().amax(1)
    assert moved.min() > 0
