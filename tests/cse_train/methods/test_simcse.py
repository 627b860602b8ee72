"""SimCSE's own promises: dropout views, `Fixed`, hard negatives, the masked-LM auxiliary loss."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from cse_train import random_streams
from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import Backbone, load_backbone
from cse_train.encoder.packing import pack_lists
from cse_train.fields import ConfigError
from cse_train.losses import info_nce
from cse_train.methods import simcse
from cse_train.methods.base import Share
from cse_train.text.corpora import open_source
from cse_train.text.file_corpora import PAIR_COLUMNS
from cse_train.text.masking import mask_tokens
from cse_train.text.tokens import open_store


@pytest.fixture
def backbone(tiny_encoder: Path) -> Backbone:
    return load_backbone(str(tiny_encoder))


def batch_of(config: simcse.Config, backbone: Backbone, file: Path):
    store = open_store(open_source("file", DataPaths(train_file=file)), backbone.tokenizer, 16)
    collate = simcse.SimCSE.make_collate(config, backbone.tokenizer, 16)
    rows = np.arange(6)
    return collate(Share(store, rows, rows, partial(random_streams.augmentation, 0, 0))), store


def test_T5_two_dropout_views_differ_in_training_and_agree_without(backbone: Backbone, text_file: Path) -> None:
    config = simcse.Config()
    batch, _ = batch_of(config, backbone, text_file)
    model = simcse.SimCSE.build(config, backbone).train()
    one, two = model._views(dict(batch.inputs), 6)
    assert (one - two).abs().max() > 1e-3
    one, two = model.eval()._views(dict(batch.inputs), 6)
    torch.testing.assert_close(one, two, atol=1e-6, rtol=1e-6)


def test_T5_fixed_dropout_has_cosine_one(backbone: Backbone, text_file: Path) -> None:
    config = simcse.Config(fixed_dropout=True)
    batch, _ = batch_of(config, backbone, text_file)
    output = simcse.SimCSE.build(config, backbone).train()(batch)
    assert output.metrics["positive_cosine"].item() == pytest.approx(1.0, abs=1e-6)


def test_T3_triplets_use_the_third_column_as_hard_negatives(backbone: Backbone, triplets_file: Path) -> None:
    config = simcse.Config(objective="triplets", hard_negative_weight=2.0)
    batch, store = batch_of(config, backbone, triplets_file)
    model = simcse.SimCSE.build(config, backbone).eval()
    views = [model.encode(pack_lists([store.column(c).row(i) for i in range(6)])) for c in PAIR_COLUMNS]
    model.pooler.pooler = "cls_no_mlp"
    expected = info_nce(views[0], views[1], hard_negatives_BD=views[2], hard_negative_weight=2.0)
    assert model(batch).loss.item() == pytest.approx(expected.item(), abs=1e-4)


def test_T23_masked_lm_loss_equals_a_loop(backbone: Backbone, text_file: Path) -> None:
    config = simcse.Config(mlm_weight=0.1, mlm_probability=0.3)
    batch, store = batch_of(config, backbone, text_file)
    model = simcse.SimCSE.build(config, backbone).eval()
    rng = {i: random_streams.augmentation(0, 0, i) for i in range(6)}
    losses = []
    for _ in range(2):
        for i in range(6):
            ids = store.column("text").row(i)
            special = np.isin(ids, backbone.tokenizer.all_special_ids)
            masked, chosen = mask_tokens(
                ids, ~special, ratio=0.3, mask_id=4, vocab_size=len(backbone.tokenizer), rng=rng[i]
            )
            hidden = model.encoder(pack_lists([masked]), tokens=True)
            logits = model.head(hidden.last_TH, model.encoder.word.weight)
            losses += [F.cross_entropy(logits[j], torch.tensor(int(ids[j]))) for j in np.flatnonzero(chosen)]
    assert backbone.tokenizer.mask_token_id == 4
    assert len(losses) == len(batch.tensors["target_M"])
    expected = torch.stack(losses).mean().item()
    assert model(batch).metrics["loss_mlm"].item() == pytest.approx(expected, abs=1e-4)


def test_masked_lm_needs_a_head(backbone: Backbone) -> None:
    backbone.head = None
    with pytest.raises(ConfigError, match=r"^no masked-LM head: method.mlm_weight=0.1, train.encoder="):
        simcse.SimCSE.build(simcse.Config(mlm_weight=0.1), backbone)
