"""SBERT's own promises: labels reach their pairs, the two objectives, what it says of a corpus without labels."""

import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from cse_train import random_streams
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import load_backbone
from cse_train.encoder.packing import pack_lists
from cse_train.fields import ConfigError
from cse_train.methods import sbert
from cse_train.methods.base import Share, load_method
from cse_train.text.corpora import open_source
from cse_train.text.file_corpora import NLI_LABELS
from cse_train.training.batches import Batches
from cse_train.training.loop import Session
from tests.cse_train.methods.parts import parts_of

ROWS = np.arange(8)


@pytest.fixture
def parts(tiny_settings, labelled_file: Path, triplets_file: Path):
    """Options -> (model in training mode without dropout, a batch of 8, its store)."""

    def make(**options: object):
        file = triplets_file if options.get("objective") == "triplets" else labelled_file
        return parts_of(tiny_settings("sbert"), file, ROWS, **options)[1:4]

    return make


def by_column(model, store, names: tuple[str, ...]) -> list[list[torch.Tensor]]:
    """One sentence at a time."""
    with torch.no_grad():
        return [[model.encode(pack_lists([store.column(name).row(i)]))[0] for i in ROWS] for name in names]


def test_labels_are_those_of_the_file_whatever_the_length(parts, labelled_file: Path, tiny_settings) -> None:
    _, batch, _ = parts()
    rows = list(open_source("file", DataPaths(train_file=labelled_file)).rows())
    assert [NLI_LABELS[place] for place in batch.tensors["label_B"]] == [row[2] for row in rows[:8]]
    assert set(batch.tensors["label_B"].tolist()) == {0, 1, 2}
    run = parse_run(tiny_settings("sbert", train_max_seq_length=4))
    short = Batches.open(run, DataPaths(train_file=labelled_file), load_backbone(run.train.encoder))
    share = Share(short.store, ROWS, ROWS, partial(random_streams.augmentation, 0, 0))
    assert torch.equal(short.collate(share).tensors["label_B"], batch.tensors["label_B"])


def test_classification_is_a_loop_over_pairs(parts) -> None:
    model, batch, store = parts()
    left, right = by_column(model, store, ("sent0", "sent1"))
    total, right_ones = 0.0, 0
    for u, v, label in zip(left, right, batch.tensors["label_B"].tolist(), strict=True):
        chances = model.classifier(torch.cat([u, v, (u - v).abs()])).softmax(0).tolist()
        total -= math.log(chances[label])
        right_ones += max(chances) == chances[label]
    output = model(batch)
    assert output.loss.item() == pytest.approx(total / 8, rel=1e-5)
    assert output.metrics["nli_accuracy"].item() == right_ones / 8


def test_triplets_are_a_loop_over_distances(parts) -> None:
    model, batch, store = parts(objective="triplets", margin=2.0)
    columns = by_column(model, store, ("sent0", "sent1", "hard_neg"))
    losses = [max(0.0, float((a - p).norm() - (a - n).norm()) + 2.0) for a, p, n in zip(*columns, strict=True)]
    assert any(losses) and model(batch).loss.item() == pytest.approx(np.mean(losses), rel=1e-5)
    assert model.classifier is None


def test_frozen_value(parts) -> None:
    """Provenance: the tiny encoder of these tests; the loop above agrees; first recorded with torch 2.13."""
    model, batch, _ = parts()
    assert model(batch).loss.item() == pytest.approx(FROZEN, abs=1e-5)


FROZEN = 1.174484


def test_a_corpus_without_labels_is_one_line(tiny_settings, triplets_file: Path) -> None:
    run = parse_run(tiny_settings("sbert"))
    with pytest.raises(ConfigError) as told:
        Batches.open(run, DataPaths(train_file=triplets_file), load_backbone(run.train.encoder))
    assert told.value.problems == [
        "wrong columns: train.corpus=file has sent0, sent1, hard_neg; "
        "method=sbert reads sent0, sent1, label with these options; "
        "name them by columns: {sent0: NAME, sent1: NAME, label: NAME}, or give another file or other options"
    ]
    assert load_method("sbert").columns(sbert.Config(objective="triplets"))[2] == "hard_neg"


def test_a_fixed_classifier_stays_as_it_was_drawn(tiny_settings, labelled_file: Path, tmp_path: Path) -> None:
    """W_t of equal seeds begins the same; `fit` of v0.2.0 never hands it to the optimiser."""
    states = {}
    for kind in ("trained", "fixed"):
        run = parse_run(tiny_settings("sbert", method_classifier=kind, train_evaluations=2))
        session = Session.open(run, DataPaths(train_file=labelled_file), tmp_path / kind)
        before = {name: tensor.clone() for name, tensor in session.model.state_dict().items()}
        session.go(lambda point: False)
        states[kind] = before, session.model.state_dict()
    for name, tensor in states["trained"][0].items():
        assert torch.equal(tensor, states["fixed"][0][name]), "equal starts"
    moved = {
        kind: {n for n, t in after.items() if not torch.equal(t, before[n])} for kind, (before, after) in states.items()
    }
    assert moved["trained"] - moved["fixed"] == {"classifier.weight", "classifier.bias"} and moved["fixed"]
