"""Supervised DiffCSE: the losses over anchor, positive and hard negative, each conditioned on its own embedding."""

import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from cse_train import random_streams
from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import Backbone
from cse_train.encoder.packing import pack_lists
from cse_train.fields import ConfigError
from cse_train.methods import diffcse
from cse_train.methods.base import Batch, Share, load_method
from cse_train.methods.options.diffcse import Config
from cse_train.text.corpora import open_source
from cse_train.text.file_corpora import PAIR_COLUMNS
from cse_train.text.tokens import TokenStore, open_store
from tests.cse_train.packs import lists_of

ROWS = np.arange(4)
TRIPLETS = partial(Config, objective="triplets", generator="words-l1-h64", generator_dropout=False, lambda_weight=0.5)


@pytest.fixture
def triplets(backbone: Backbone, triplets_file: Path) -> TokenStore:
    return open_store(open_source("file", DataPaths(train_file=triplets_file)), backbone.tokenizer, 16)


@pytest.fixture
def batch_of_triplets(backbone: Backbone, triplets: TokenStore):
    def collate(config: Config, rows: np.ndarray = ROWS, together: np.ndarray = ROWS) -> Batch:
        share = Share(triplets, rows, together, partial(random_streams.augmentation, 0, 0))
        return diffcse.DiffCSE.make_collate(config, backbone.tokenizer, 16)(share)

    return collate


def alone(model, store: TokenStore, name: str, row: int) -> torch.Tensor:
    """One sentence's embedding by itself, no batch around it."""
    return model.pooler(model.encoder(pack_lists([store.column(name).row(row)])))[0, 0]


def cosine(a: torch.Tensor, b: torch.Tensor) -> float:
    a, b = a.detach().double(), b.detach().double()
    return float(a @ b / (a.norm() * b.norm()))


@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_loss_equals_a_loop_over_triplets_and_tokens(
    batch_of_triplets, still, triplets: TokenStore, weight: float
) -> None:
    config = TRIPLETS(projector="mlp", reduction="mean_attended", hard_negative_weight=weight)
    batch, model = batch_of_triplets(config), still(config)
    vectors = {name: [alone(model, triplets, name, row) for row in ROWS] for name in PAIR_COLUMNS}
    contrastive = 0.0
    for i, anchor in enumerate(vectors["sent0"]):
        positives = [math.exp(cosine(anchor, p) / 0.05) for p in vectors["sent1"]]
        hard = [math.exp(cosine(anchor, h) / 0.05) for h in vectors["hard_neg"]]
        hard[i] *= weight
        contrastive -= math.log(positives[i] / (sum(positives) + sum(hard))) / len(ROWS)
    edited, task = model._fill_edits(batch), model.discriminator
    ids, labels = lists_of(edited.packed, edited.packed.ids_T), lists_of(edited.packed, edited.replaced_T)
    own = [vector for name in PAIR_COLUMNS for vector in vectors[name]]
    entropies = []
    for tokens, replaced, vector in zip(ids, labels, own, strict=True):
        chances = task.head(task.hidden(pack_lists([tokens]), vector[None])).softmax(-1).tolist()
        entropies += [-math.log(chance[int(label)]) for chance, label in zip(chances, replaced, strict=True)]
    output = model(batch)
    assert output.metrics["loss_contrastive"].item() == pytest.approx(contrastive, rel=1e-5)
    assert output.metrics["loss_rtd"].item() == pytest.approx(np.mean(entropies), rel=1e-5)
    assert output.loss.item() == pytest.approx(contrastive + 0.5 * np.mean(entropies), rel=1e-5)


def test_frozen_value(batch_of_triplets, still) -> None:
    """Provenance: the tiny encoder of this folder's tests; the loop above agrees; first recorded with torch 2.13."""
    config = TRIPLETS()
    assert still(config)(batch_of_triplets(config)).loss.item() == pytest.approx(FROZEN, abs=1e-4)


FROZEN = 20.210629


def test_every_sentence_is_edited_once_and_sees_its_own_embedding(batch_of_triplets, still, triplets) -> None:
    config = TRIPLETS()
    batch, model = batch_of_triplets(config), still(config)
    source = lists_of(batch.inputs["edited"], batch.tensors["source_T"])
    assert source == [triplets.column(name).row(i).tolist() for name in PAIR_COLUMNS for i in ROWS]
    seen: dict[str, torch.Tensor] = {}
    model.discriminator.register_forward_pre_hook(lambda _, args: seen.update(conditions=args[1]))
    model.pooler.register_forward_hook(lambda _, __, out: seen.update(views=out))
    model(batch)
    assert seen["views"].shape == (1, 12, 32), "BatchNorm sees the three columns together (T14)"
    assert torch.equal(seen["conditions"], seen["views"][0])


def test_padding_is_that_of_the_longest_sentence_of_all_ranks_and_columns(batch_of_triplets, triplets) -> None:
    every = np.arange(triplets.rows)
    longest = max(int(triplets.column(name).lengths.max()) for name in PAIR_COLUMNS)
    batch = batch_of_triplets(TRIPLETS(), ROWS, every)
    assert {group.width for group in batch.inputs["edited"].groups} == {longest}


@pytest.mark.parametrize("options", [{"source": "next"}, {"task": "none", "extra": "negatives"}, {"edits": "stored"}])
def test_what_single_sentences_alone_have_is_one_line(backbone: Backbone, options: dict) -> None:
    with pytest.raises(ConfigError) as told:
        diffcse.DiffCSE.build(TRIPLETS(**options), backbone)
    assert told.value.problems[-1].startswith("of single sentences alone: method.objective=triplets, method.source=")
    assert load_method("diffcse").columns(TRIPLETS()) == PAIR_COLUMNS
