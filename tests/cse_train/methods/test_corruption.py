"""T22: one corruption of each sentence, kept under a name that holds all that decides it."""

import multiprocessing
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cse_train.data_paths import DataPaths
from cse_train.encoder import generator
from cse_train.encoder.backbone import Backbone, load_backbone
from cse_train.encoder.generator import Generator
from cse_train.encoder.packing import pack_lists
from cse_train.methods import d2cse
from cse_train.methods.d2cse import CorruptionRule, add_corrupted, name_corrupted
from cse_train.text.corpora import open_source
from cse_train.text.tokens import TokenStore, open_store

RULE = CorruptionRule("words-l1-h64", ratio=0.3, seed=0)
FORK = multiprocessing.get_context("fork")


@pytest.fixture(scope="module")
def backbone(tiny_encoder: Path) -> Backbone:
    return load_backbone(str(tiny_encoder))


@pytest.fixture
def store(backbone: Backbone, text_file: Path) -> TokenStore:
    return open_store(open_source("file", DataPaths(train_file=text_file)), backbone.tokenizer, 16)


@pytest.fixture
def corrupt(backbone: Backbone, store: TokenStore, tmp_path: Path) -> Callable[..., TokenStore]:
    def make(given: TokenStore = store, columns: tuple[str, ...] = ("text",), **changed: object) -> TokenStore:
        return add_corrupted(given, columns, replace(RULE, **changed), backbone, tmp_path)

    return make


def test_T22_rows_keep_their_length_and_first_token_and_some_others_change(store, corrupt) -> None:
    made = corrupt()
    assert made.columns == ("text", "corrupted_text") and made.rows == store.rows
    old, new = made.column("text"), made.column("corrupted_text")
    changed = old.flat != new.flat
    assert old.flat.dtype == new.flat.dtype == np.int32
    assert 0.05 < changed.mean() < 0.3
    assert not changed[old.starts].any()
    assert all(len(new.row(i)) == len(old.row(i)) for i in range(made.rows))


def test_T22_masked_positions_alone_change_and_special_tokens_never(store, corrupt, backbone) -> None:
    old, new = store.column("text").flat, corrupt().column("corrupted_text").flat
    special = np.isin(old, backbone.tokenizer.all_special_ids)
    assert (old[special] == new[special]).all()


def test_T22_all_positions_follow_the_generator_but_the_first(corrupt, backbone) -> None:
    """With a random generator nearly every token goes, the last special one too, as in DiffCSE's released code."""
    made = corrupt(generator=backbone.name, positions="all")
    old, new = made.column("text"), made.column("corrupted_text")
    assert (old.flat[old.starts] == new.flat[old.starts]).all()
    assert (old.flat != new.flat).mean() > 0.8
    last = old.starts + old.lengths - 1
    assert (old.flat[last] != new.flat[last]).any()


def test_T22_the_generators_greedy_token_stands_where_it_was_masked(store, corrupt, backbone) -> None:
    made = corrupt()
    row = next(i for i in range(8) if (made.column("text").row(i) != made.column("corrupted_text").row(i)).any())
    vocabulary = d2cse.Vocabulary(
        backbone.tokenizer.mask_token_id, tuple(backbone.tokenizer.all_special_ids), len(backbone.tokenizer)
    )
    rng = np.random.default_rng(d2cse.random_streams.seed_of(0, "corruption", "text", row))
    masked = d2cse.edit(store.column("text").row(row), "replace", 0.3, vocabulary, rng)
    predicted = Generator("words-l1-h64", backbone, dropout=False).predict(pack_lists([masked.masked_L])).numpy()
    expected = np.where(masked.chosen_L, predicted, masked.source_L)
    assert made.column("corrupted_text").row(row).tolist() == expected.tolist()


def test_T22_second_opening_computes_nothing_whatever_the_chunks(corrupt, monkeypatch) -> None:
    first = corrupt()
    ids = first.column("corrupted_text").flat.copy()
    monkeypatch.setattr(d2cse, "Generator", None)
    assert corrupt().folder == first.folder
    monkeypatch.undo()
    monkeypatch.setattr(d2cse, "CORRUPTION_CHUNK", 7)
    monkeypatch.setattr(d2cse, "CORRUPTION_FORMAT", -1)
    again = corrupt()
    assert again.folder != first.folder
    assert again.column("corrupted_text").flat.tolist() == ids.tolist()


@pytest.mark.parametrize("changed", [{"ratio": 0.2}, {"seed": 1}, {"positions": "all"}, {"generator": "words-l2-h128"}])
def test_T22_the_key_names_generator_ratio_seed_and_positions(corrupt, changed: dict) -> None:
    before, after = corrupt(), corrupt(**changed)
    assert before.folder != after.folder
    flat = [made.column("corrupted_text").flat for made in (before, after)]
    assert (flat[0] != flat[1]).any()


def test_T22_the_key_names_the_generators_content_tokenizer_and_corpus(
    corrupt, monkeypatch, backbone, text_file: Path
) -> None:
    before = corrupt().folder
    shorter = open_store(open_source("file", DataPaths(train_file=text_file)), backbone.tokenizer, 8)
    assert corrupt(shorter).folder != before
    monkeypatch.setattr(generator, "require_same_vocabulary", lambda *_: None)
    monkeypatch.setattr(backbone, "tokenizer_hash", "another")
    assert corrupt().folder != before
    monkeypatch.undo()
    monkeypatch.setattr(d2cse, "generator_hash", lambda name: "other weights of the same name")
    assert corrupt().folder != before


def test_T22_triplets_have_positives_and_hard_negatives_corrupted_too(corrupt, backbone, triplets_file: Path) -> None:
    store = open_store(open_source("file", DataPaths(train_file=triplets_file)), backbone.tokenizer, 16)
    made = corrupt(store, store.columns)
    for name in ("sent0", "sent1", "hard_neg"):
        assert (made.column(name).flat != made.column(name_corrupted(name)).flat).any()
    sent1, sent0 = made.column("corrupted_sent1").row(0).tolist(), made.column("corrupted_sent0").row(1).tolist()
    assert made.column("sent1").row(0).tolist() == made.column("sent0").row(1).tolist()
    assert sent1 != sent0, "the same text in another column has masks of its own"


def test_T22_a_cut_file_is_built_again(corrupt) -> None:
    first = corrupt()
    ids = first.column("corrupted_text").flat.tolist()
    file = first.folder / "text.flat"
    os.truncate(file, file.stat().st_size - 4)
    assert corrupt().column("corrupted_text").flat.tolist() == ids


def test_T22_two_builders_at_once_agree(corrupt, store, backbone, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    builders = [FORK.Process(target=add_corrupted, args=(store, ("text",), RULE, backbone, tmp_path)) for _ in "12"]
    for builder in builders:
        builder.start()
    deadline = time.monotonic() + 60
    for builder in builders:
        builder.join(max(0.0, deadline - time.monotonic()))
    assert [builder.exitcode for builder in builders] == [0, 0]
    assert sorted(p.name for p in (tmp_path / "corrupted").iterdir()) == [
        corrupt().folder.name,
        corrupt().folder.name + ".lock",
    ]
