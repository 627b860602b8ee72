"""Contrastive Tension's own promises: which sentences meet in a pair, two encoders that part, and which one is used."""

import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from cse_train import random_streams
from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import Backbone, load_backbone
from cse_train.encoder.packing import pack_lists
from cse_train.fields import ConfigError
from cse_train.methods import ct
from cse_train.methods.base import Batch, Share
from cse_train.text.corpora import open_source
from cse_train.text.tokens import TokenStore, open_store


@pytest.fixture
def store(backbone: Backbone, text_file: Path) -> TokenStore:
    return open_store(open_source("file", DataPaths(train_file=text_file)), backbone.tokenizer, 16)


ROWS = np.array([5, 2, 9, 11, 30, 1, 0, 17])


def batch_of(config: ct.Config, backbone: Backbone, store: TokenStore, rows=ROWS, together=ROWS) -> Batch:
    collate = ct.ContrastiveTension.make_collate(config, backbone.tokenizer, 16)
    return collate(Share(store, rows, together, partial(random_streams.augmentation, 0, 0)))


def pairs_of(batch: Batch, store: TokenStore) -> list[tuple[int, int]]:
    """The corpus rows that the encoders read for each pair."""
    rows = {tuple(store.column("text").row(i).tolist()): i for i in range(store.rows)}
    first, second = (
        [rows[tuple(ids.tolist())] for ids in batch.inputs[name].unpacked(batch.inputs[name].ids_T)]
        for name in ("first", "second")
    )
    return [(first[at], right) for at, right in zip(batch.tensors["anchor_B"].tolist(), second, strict=True)]


def test_a_positive_s_sentence_meets_itself_and_k_others(backbone: Backbone, store: TokenStore) -> None:
    batch = batch_of(ct.Config(negatives=3), backbone, store)
    assert pairs_of(batch, store) == [(5, 5), (5, 2), (5, 9), (5, 11), (30, 30), (30, 1), (30, 0), (30, 17)]
    assert batch.tensors["same_B"].tolist() == [True, False, False, False] * 2
    assert (batch.inputs["first"].rows, batch.inputs["second"].rows) == (2, 8), "an anchor is read once"


def test_ranks_make_the_pairs_of_the_whole_batch(backbone: Backbone, store: TokenStore) -> None:
    whole = pairs_of(batch_of(ct.Config(), backbone, store), store)
    shares = [batch_of(ct.Config(), backbone, store, rows) for rows in (ROWS[:4], ROWS[4:])]
    assert [pair for share in shares for pair in pairs_of(share, store)] == whole
    assert [share.tensors["same_B"].sum().item() for share in shares] == [1, 0]


def test_independent_pairs_never_hold_one_sentence_twice(backbone: Backbone, store: TokenStore) -> None:
    batch = batch_of(ct.Config(negatives=3, pairing="independent"), backbone, store)
    pairs = pairs_of(batch, store)
    assert [right for _, right in pairs] == ROWS.tolist()
    assert [left == right for left, right in pairs] == [True, False, False, False] * 2
    assert len({left for left, _ in pairs}) > 4


def test_a_batch_that_pairs_do_not_divide_is_one_line(backbone: Backbone, store: TokenStore) -> None:
    with pytest.raises(ConfigError, match=r"^pairs do not divide: train.batch_size=8, method.negatives=4; .* of 5$"):
        batch_of(ct.Config(negatives=4), backbone, store)


def test_loss_is_a_hand_loop_over_pairs(backbone: Backbone, store: TokenStore) -> None:
    """Mean vectors of both encoders, which differ, and their plain dot products."""
    model = ct.ContrastiveTension.build(ct.Config(negatives=3), backbone)
    with torch.no_grad():
        for parameter in model.first_encoder.parameters():
            parameter.mul_(0.9)
    terms = []
    for index, (left, right) in enumerate(pairs_of(batch_of(ct.Config(negatives=3), backbone, store), store)):
        vectors = [
            encoder(pack_lists([store.column("text").row(row)]), tokens=True).last_TH.mean(0).double().detach()
            for encoder, row in ((model.first_encoder, left), (model.encoder, right))
        ]
        product = float(vectors[0] @ vectors[1])
        terms.append(math.log1p(math.exp(-product)) if index % 4 == 0 else math.log1p(math.exp(product)))
    loss = model(batch_of(ct.Config(negatives=3), backbone, store)).loss.item()
    assert loss == pytest.approx(sum(terms) / 8, rel=1e-5)


def test_the_encoders_start_equal_part_and_the_second_one_embeds(backbone: Backbone, store: TokenStore) -> None:
    model = ct.ContrastiveTension.build(ct.Config(), backbone).train()
    before = {name: p.clone() for name, p in model.encoder.named_parameters()}
    assert all(torch.equal(p, dict(model.first_encoder.named_parameters())[name]) for name, p in before.items())
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    model(batch_of(ct.Config(), backbone, store)).loss.backward()
    optimiser.step()
    mine, others = dict(model.encoder.named_parameters()), dict(model.first_encoder.named_parameters())
    assert any(not torch.equal(mine[name], value) for name, value in before.items())
    assert any(not torch.equal(mine[name], others[name]) for name in before)
    packed = pack_lists([store.column("text").row(3)])
    expected = model.encoder.eval()(packed, tokens=True).last_TH.mean(0)
    torch.testing.assert_close(model.eval().encode(packed)[0], expected, atol=1e-6, rtol=1e-5)
    assert ct.ContrastiveTension.build(ct.Config(), backbone, training=False).first_encoder is None


def test_statistics_come_from_positive_pairs(backbone: Backbone, store: TokenStore) -> None:
    """Equal encoders without dropout: a sentence and itself have cosine 1."""
    metrics = ct.ContrastiveTension.build(ct.Config(), backbone)(batch_of(ct.Config(), backbone, store)).metrics
    assert metrics["positive_cosine"].item() == pytest.approx(1.0, abs=1e-6)
    assert metrics["alignment"].item() == pytest.approx(0.0, abs=1e-6)
    assert metrics["negative_cosine"].item() < 0.99 and metrics["uniformity"].item() < 0


@pytest.mark.parametrize(
    ("first", "second", "kept"), [(70.0, 60.0, "first"), (60.0, 70.0, "second"), (60.0, 60.0, "second")]
)
def test_the_better_encoder_on_the_dev_set_is_kept_as_released_and_the_second_where_they_are_equal(
    backbone: Backbone, first: float, second: float, kept: str
) -> None:
    model = ct.ContrastiveTension.build(ct.Config(kept="better"), backbone)
    with torch.no_grad():
        for parameter in model.first_encoder.parameters():
            parameter.mul_(0.9)
    packed = pack_lists([[2, 9, 11, 3]])
    vectors = [encode(packed) for encode in model.dev_encodes()]
    assert len(vectors) == 2 and torch.equal(vectors[0], model.encode(packed)) and not torch.equal(*vectors)
    scores = [second, first]
    model.keep(scores.index(max(scores)))
    loaded = ct.ContrastiveTension.build(
        ct.Config(kept="better"), load_backbone(backbone.name, dropout=0.0), training=False
    ).eval()
    state = {
        name: value
        for name, value in model.kept_state().items()
        if not name.startswith(ct.ContrastiveTension.TRAINING_ONLY)
    }
    loaded.load_state_dict(state)
    torch.testing.assert_close(loaded.encode(packed), vectors[kept == "first"])
    assert len(ct.ContrastiveTension.build(ct.Config(), backbone).dev_encodes()) == 1
