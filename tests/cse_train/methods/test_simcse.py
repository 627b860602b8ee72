"""SimCSE's own promises and the rows of its tables: augmentations (S1), two encoders (S2), T32, D5."""

from collections import Counter
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.stats import chisquare

from cse_train import checkpoint, random_streams
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import Backbone, load_backbone
from cse_train.encoder.generator import fill_views
from cse_train.encoder.packing import pack_lists
from cse_train.fields import ConfigError
from cse_train.losses import info_nce
from cse_train.methods import simcse
from cse_train.methods.base import Batch, Share
from cse_train.text.corpora import open_source
from cse_train.text.file_corpora import PAIR_COLUMNS
from cse_train.text.masking import mask_tokens
from cse_train.text.tokens import TokenStore, open_store
from cse_train.training.batches import Batches
from cse_train.training.optimiser import optimiser_of
from tests.cse_train.packs import lists_of


@pytest.fixture
def dropout_backbone(tiny_encoder: Path) -> Backbone:
    return load_backbone(str(tiny_encoder))


def batch_of(config: simcse.Config, dropout_backbone: Backbone, file: Path):
    store = open_store(open_source("file", DataPaths(train_file=file)), dropout_backbone.tokenizer, 16)
    collate = simcse.SimCSE.make_collate(config, dropout_backbone.tokenizer, 16)
    rows = np.arange(6)
    return collate(Share(store, rows, rows, partial(random_streams.augmentation, 0, 0))), store


def test_T5_two_dropout_views_differ_in_training_and_agree_without(dropout_backbone: Backbone, text_file: Path) -> None:
    config = simcse.Config()
    batch, _ = batch_of(config, dropout_backbone, text_file)
    model = simcse.SimCSE.build(config, dropout_backbone).train()
    one, two = model._views(dict(batch.inputs), 6)
    assert (one - two).abs().max() > 1e-3
    one, two = model.eval()._views(dict(batch.inputs), 6)
    torch.testing.assert_close(one, two, atol=1e-6, rtol=1e-6)


def test_T5_fixed_dropout_has_cosine_one(dropout_backbone: Backbone, text_file: Path) -> None:
    config = simcse.Config(fixed_dropout=True)
    batch, _ = batch_of(config, dropout_backbone, text_file)
    output = simcse.SimCSE.build(config, dropout_backbone).train()(batch)
    assert output.metrics["positive_cosine"].item() == pytest.approx(1.0, abs=1e-6)


def test_T3_triplets_use_the_third_column_as_hard_negatives(dropout_backbone: Backbone, triplets_file: Path) -> None:
    config = simcse.Config(objective="triplets", hard_negative_weight=2.0)
    batch, store = batch_of(config, dropout_backbone, triplets_file)
    model = simcse.SimCSE.build(config, dropout_backbone).eval()
    views = [model.encode(pack_lists([store.column(c).row(i) for i in range(6)])) for c in PAIR_COLUMNS]
    model.pooler.pooler = "cls_no_mlp"
    expected = info_nce(views[0], views[1], hard_negatives_BD=views[2], hard_negative_weight=2.0)
    assert model(batch).loss.item() == pytest.approx(expected.item(), abs=1e-4)


def test_T23_masked_lm_loss_equals_a_loop(dropout_backbone: Backbone, text_file: Path) -> None:
    config = simcse.Config(mlm_weight=0.1, mlm_probability=0.3)
    batch, store = batch_of(config, dropout_backbone, text_file)
    model = simcse.SimCSE.build(config, dropout_backbone).eval()
    rng = {i: random_streams.augmentation(0, 0, i) for i in range(6)}
    losses = []
    for _ in range(2):
        for i in range(6):
            ids = store.column("text").row(i)
            special = np.isin(ids, dropout_backbone.tokenizer.all_special_ids)
            masked, chosen = mask_tokens(
                ids, ~special, ratio=0.3, mask_id=4, vocab_size=len(dropout_backbone.tokenizer), rng=rng[i]
            )
            hidden = model.encoder(pack_lists([masked]), tokens=True)
            logits = model.head(hidden.last_TH, model.encoder.word.weight)
            losses += [F.cross_entropy(logits[j], torch.tensor(int(ids[j]))) for j in np.flatnonzero(chosen)]
    assert dropout_backbone.tokenizer.mask_token_id == 4
    assert len(losses) == len(batch.tensors["target_M"])
    expected = torch.stack(losses).mean().item()
    assert model(batch).metrics["loss_mlm"].item() == pytest.approx(expected, abs=1e-4)


def test_masked_lm_needs_a_head(dropout_backbone: Backbone) -> None:
    dropout_backbone.head = None
    with pytest.raises(ConfigError, match=r"^no masked-LM head: method.mlm_weight=0.1, train.encoder="):
        simcse.SimCSE.build(simcse.Config(mlm_weight=0.1), dropout_backbone)


LENGTH = 8
"""Tokens of a sentence: most of the 40 lines are longer, so truncation shows."""
WORD_EDITS = {"crop": {"augmentation_rate": 0.3}, "word_deletion": {"augmentation_rate": 0.3}, "delete_one_word": {}}


@pytest.fixture
def collated(backbone: Backbone, text_file: Path):
    """(Config, epoch) -> a batch of all rows, the texts, and the store."""

    def collate(config: simcse.Config, epoch: int = 0) -> tuple[Batch, list[str], TokenStore]:
        kept = simcse.SimCSE.tokens_kept(config, LENGTH)
        store = open_store(open_source("file", DataPaths(train_file=text_file)), backbone.tokenizer, kept)
        rows = simcse.SimCSE.usable_rows(config, store)
        share = Share(store, rows, rows, partial(random_streams.augmentation, 0, epoch))
        batch = simcse.SimCSE.make_collate(config, backbone.tokenizer, LENGTH)(share)
        return batch, text_file.read_text(encoding="utf8").split("\n"), store

    return collate


def sentences_in(batch: Batch, pack: str = "text") -> list[list[int]]:
    """The ids of a pack in batch order."""
    return lists_of(batch.inputs[pack])


def tokenised(backbone: Backbone, texts: list[str]) -> list[list[int]]:
    return backbone.tokenizer(texts, truncation=True, max_length=LENGTH)["input_ids"]


@pytest.mark.parametrize("augmentation", WORD_EDITS)
def test_S1_view_2_is_the_edited_text_tokenised_and_then_truncated(augmentation, collated, backbone: Backbone) -> None:
    batch, texts, _ = collated(simcse.Config(augmentation=augmentation, **WORD_EDITS[augmentation]))
    rows = sentences_in(batch)
    assert rows[:40] == tokenised(backbone, texts)
    for text, view in zip(texts, rows[40:], strict=True):
        words = text.split()
        out = 1 if augmentation == "delete_one_word" else int(0.3 * len(words) + 0.5)
        spans = [words[i : i + len(words) - out] for i in range(out + 1)]
        kept = spans if augmentation == "crop" else combinations(words, len(words) - out)
        assert view in tokenised(backbone, sorted({" ".join(one) for one in kept}))
    assert any(a != b for a, b in zip(rows[:40], rows[40:], strict=True))


def test_S1_synonyms_come_from_the_given_dictionary(ten_words: Path, collated, backbone: Backbone) -> None:
    batch, texts, _ = collated(simcse.Config(augmentation="synonym", synonyms=str(ten_words)))
    rows = sentences_in(batch)
    replaced = {"river": ("stream", "watercourse"), "road": ("main route", "route"), "old": ("aged",)}
    for text, view in zip(texts, rows[40:], strict=True):
        words = text.split()
        others = [
            " ".join([*words[:i], other, *words[i + 1 :]])
            for i, word in enumerate(words)
            for other in replaced.get(word, ())
        ]
        assert view in tokenised(backbone, others or [text])
    assert simcse.Config(augmentation="synonym", synonyms=str(ten_words)).inputs().keys() == {"synonyms"}


def test_S1_views_change_with_the_epoch_and_with_nothing_else(collated) -> None:
    config = simcse.Config(augmentation="word_deletion", augmentation_rate=0.3)
    first, again, later = (sentences_in(collated(config, epoch)[0]) for epoch in (0, 0, 1))
    assert first == again and first[:40] == later[:40] and first[40:] != later[40:]


@pytest.mark.parametrize("encoders", ["shared", "two"])
def test_S1_dropout_stays_on_for_augmented_views(encoders: str, collated, tiny_encoder: Path) -> None:
    """The file's shortest sentences keep all their words, so that only dropout tells their views apart."""
    config = simcse.Config(augmentation="crop", augmentation_rate=0.1, encoders=encoders)
    batch, _, _ = collated(config)
    model = simcse.SimCSE.build(config, load_backbone(str(tiny_encoder))).train()
    one, two = model._views(dict(batch.inputs), 40)
    assert (one[0] - two[0]).abs().max() > 1e-3
    one, two = model.eval()._views(dict(batch.inputs), 40)
    torch.testing.assert_close(one[0], two[0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("encoders", ["shared", "two"])
def test_S1_mlm_replaces_the_masked_positions_of_view_2_alone(encoders: str, collated, backbone: Backbone) -> None:
    config = simcse.Config(augmentation="mlm", augmentation_rate=0.3, encoders=encoders, generator="words-l1-h64")
    batch, texts, _ = collated(config)
    model = simcse.SimCSE.build(config, backbone).train()
    mask_id = backbone.tokenizer.mask_token_id
    masked = sentences_in(batch, "blanks")
    expected = []
    for ids in masked:
        predicted = model.generator.predict(pack_lists([ids])).tolist()
        expected.append([new if old == mask_id else old for old, new in zip(ids, predicted, strict=True)])
    packs, _ = fill_views(model.generator, batch.inputs, batch.tensors)
    metrics = model(batch).metrics
    views = sentences_in(Batch(packs, 40), "text" if encoders == "shared" else "second")
    originals = tokenised(backbone, texts)
    assert views == (originals + expected if encoders == "shared" else expected)
    tokens = [(a, b) for old, new in zip(originals, expected, strict=True) for a, b in zip(old, new, strict=True)]
    assert metrics["replaced_fraction"].item() == pytest.approx(np.mean([a != b for a, b in tokens]), abs=1e-6)
    share = sum(ids.count(mask_id) for ids in masked) / (len(tokens) - 80)
    assert abs(share - 0.3) < 3 * (0.3 * 0.7 / (len(tokens) - 80)) ** 0.5


def test_T32_the_positive_is_the_next_line_of_the_unshuffled_file(collated, backbone: Backbone) -> None:
    batch, texts, _ = collated(simcse.Config(objective="next_sentence"))
    rows = sentences_in(batch)
    assert rows[:39] == tokenised(backbone, texts[:39])
    assert rows[39:] == tokenised(backbone, texts[1:])


def test_T32_one_of_the_next_three_lines_each_alike(collated, backbone: Backbone) -> None:
    seen: Counter[int] = Counter()
    for epoch in range(20):
        batch, texts, _ = collated(simcse.Config(objective="next_3_sentences"), epoch)
        known = tokenised(backbone, texts)
        rows = sentences_in(batch)
        assert rows[:37] == known[:37]
        for i, positive in enumerate(rows[37:]):
            seen[known.index(positive, i + 1) - i] += 1
    assert sorted(seen) == [1, 2, 3]
    assert chisquare(list(seen.values())).pvalue > 1e-3


def test_T32_rows_without_all_their_next_rows_are_left_out(tiny_settings, text_file: Path, backbone: Backbone) -> None:
    for objective, out in (("unsupervised", 0), ("next_sentence", 1), ("next_3_sentences", 3)):
        run = parse_run(tiny_settings("simcse", method_objective=objective))
        assert Batches.open(run, DataPaths(train_file=text_file), backbone).rows.tolist() == list(range(40 - out))


@pytest.mark.parametrize("options", [{}, {"objective": "next_sentence"}, {"augmentation": "crop"}])
def test_S2_two_encoders_start_equal_and_part(options: dict, collated, backbone: Backbone, tiny_settings) -> None:
    shared, two = simcse.Config(**options), simcse.Config(**options, encoders="two")
    random_streams.seed_new_weights(0)
    expected = simcse.SimCSE.build(shared, backbone).train()(collated(shared)[0])
    random_streams.seed_new_weights(0)
    model = simcse.SimCSE.build(two, backbone).train()
    loss = model(collated(two)[0]).loss
    assert loss.item() == pytest.approx(expected.loss.item(), abs=1e-4)
    loss.backward()
    assert all(p.grad is not None for p in model.parameters())
    optimiser_of(model, parse_run(tiny_settings("simcse")).train).step()
    pairs = zip(model.encoder.parameters(), model.second_encoder.parameters(), strict=True)
    assert not all(torch.equal(a, b) for a, b in pairs)


def test_S2_hard_negatives_go_through_the_second_encoder(backbone: Backbone, triplets_file: Path) -> None:
    config = simcse.Config(objective="triplets", encoders="two", pooler="cls_no_mlp")
    store = open_store(open_source("file", DataPaths(train_file=triplets_file)), backbone.tokenizer, LENGTH)
    rows = np.arange(6)
    batch = simcse.SimCSE.make_collate(config, backbone.tokenizer, LENGTH)(
        Share(store, rows, rows, random_streams.augmentation)
    )
    model = simcse.SimCSE.build(config, backbone).train()
    with torch.no_grad():
        model.second_encoder.word.weight.mul_(0.5)
    packs = [pack_lists([store.column(c).row(i) for i in rows]) for c in PAIR_COLUMNS]
    first, *others = (enc(p).cls_VNH[0] for enc, p in zip(encoders_of(model), packs, strict=True))
    expected = info_nce(first, others[0], hard_negatives_BD=others[1])
    assert model(batch).loss.item() == pytest.approx(expected.item(), abs=1e-4)


def encoders_of(model: simcse.SimCSE) -> list:
    return [model.encoder, model.second_encoder, model.second_encoder]


def test_T15_batchnorm_projector_normalises_both_views_together(collated, tiny_encoder: Path) -> None:
    config = simcse.Config(projector="batchnorm")
    batch, _, _ = collated(config)
    model = simcse.SimCSE.build(config, load_backbone(str(tiny_encoder))).train()
    views = torch.cat(model._views(dict(batch.inputs), 40))
    torch.testing.assert_close(views.mean(0), torch.zeros(32), atol=1e-5, rtol=0)
    torch.testing.assert_close(views.var(0, correction=0), torch.ones(32), atol=1e-2, rtol=0)


def test_T23_both_views_are_masked_differently(collated, backbone: Backbone) -> None:
    for options in ({}, {"augmentation": "mlm"}, {"augmentation": "delete_one_word"}):
        batch, _, _ = collated(simcse.Config(mlm_weight=0.1, mlm_probability=0.5, **options))
        masked = sentences_in(batch, "masked")
        assert sum(a == b for a, b in zip(masked[:40], masked[40:], strict=True)) < 5
        assert min(min(ids) for ids in masked) >= 0


@pytest.mark.parametrize(
    "options",
    [
        {"augmentation": "mlm", "encoders": "two", "generator": "words-l1-h64"},
        {"augmentation": "delete_one_word", "mlm_weight": 0.1},
        {"objective": "next_3_sentences", "projector": "batchnorm"},
    ],
)
def test_training_moves_what_trains_and_the_best_checkpoint_holds_what_encode_needs(
    options: dict, collated, tiny_settings, tiny_encoder: Path, tmp_path: Path
) -> None:
    run = parse_run(tiny_settings("simcse", **{f"method_{key}": value for key, value in options.items()}))
    model = simcse.SimCSE.build(run.options, load_backbone(str(tiny_encoder))).train()
    frozen = {n: p.clone() for n, p in model.named_parameters() if not p.requires_grad}
    assert {name.split(".")[0] for name in frozen} == ({"generator"} if "mlm" in options.values() else set())
    optimiser = optimiser_of(model, run.train)
    for epoch in range(10):
        loss = model(collated(run.options, epoch)[0]).loss
        loss.backward()
        assert torch.isfinite(loss)
        assert not [n for n, p in model.named_parameters() if p.requires_grad and p.grad is None]
        optimiser.step()
        optimiser.zero_grad()
    assert all(torch.equal(dict(model.named_parameters())[name], value) for name, value in frozen.items())
    checkpoint.save_best(tmp_path, run, model, {})
    _, loaded, _ = checkpoint.load_model(tmp_path)
    assert loaded.second_encoder is None and loaded.generator is None
    packed = pack_lists([[2, 7, 8, 3], [2, 9, 3]])
    with torch.no_grad():
        assert torch.equal(loaded.encode(packed), model.eval().encode(packed))


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"augmentation": "crop", "objective": "pairs"}, "augmentation of pairs: method.augmentation=crop, "),
        ({"fixed_dropout": True, "encoders": "two"}, "fixed dropout of two passes: .*method.encoders=two"),
        ({"fixed_dropout": True, "augmentation": "mlm"}, "fixed dropout of two passes: .*method.augmentation=mlm"),
        ({"projector": "batchnorm", "pooler": "mean"}, "no projector: method.projector=batchnorm, method.pooler=mean"),
    ],
)
def test_options_that_exclude_each_other_are_one_line(options: dict, line: str, backbone: Backbone) -> None:
    config = simcse.Config(**options)
    for call in (
        partial(simcse.SimCSE.make_collate, config, backbone.tokenizer, 16),
        partial(simcse.SimCSE.build, config, backbone),
    ):
        with pytest.raises(ConfigError, match=f"^{line}.*; use ") as error:
            call()
        assert len(error.value.problems) == 1


@pytest.mark.parametrize("key", ["augmentation_rate", "mlm_probability"])
@pytest.mark.parametrize("value", [0.0, 1.0, -0.1, 1.5])
def test_masking_ratio_outside_0_and_1_is_one_line(key: str, value: float, tiny_settings) -> None:
    with pytest.raises(ConfigError, match=rf"^out of range: method.{key}={value}; give float > 0 and < 1$"):
        parse_run(tiny_settings("simcse", **{f"method_{key}": value}))


def test_T33_blank_cells_train_as_one_blank(tiny_settings, tmp_path: Path, backbone: Backbone) -> None:
    path = tmp_path / "blank.csv"
    path.write_text('sent0,sent1,hard_neg\n"one, ""two""",,three\n' + "four,five,\n" * 7, encoding="utf8")
    run = parse_run(tiny_settings("simcse", method_objective="triplets"))
    batches = Batches.open(run, DataPaths(train_file=path), backbone)
    batch = batches.collate(Share(batches.store, batches.rows, batches.rows, random_streams.augmentation))
    rows = sentences_in(batch)
    blank = backbone.tokenizer(" ")["input_ids"]
    assert rows[0] == backbone.tokenizer('one, "two"')["input_ids"] and rows[8] == blank == rows[17]
    assert torch.isfinite(simcse.SimCSE.build(run.options, backbone).train()(batch).loss)
