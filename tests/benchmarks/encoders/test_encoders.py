"""Pretraining of the shipped encoders: their recipes, what a step reads, the held-out report, and whole small runs."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.encoders.__main__ import pretrain
from benchmarks.encoders.batches import Corpus, PretrainingBatches, mask_rows
from benchmarks.encoders.recipe import Recipe, write_tokenizer
from benchmarks.encoders.training import MaskedLM, held_out_report, train
from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import load_backbone
from cse_train.encoder.folders import find_weights
from cse_train.encoder.identity import load_tokenizer, load_words
from cse_train.evaluate.pairs import load_pairs
from cse_train.numerics import Diverged
from cse_train.text.generated import sentences as generated_sentences

SMALL = Recipe(
    layers=1,
    width=16,
    tokens=9000,
    batch_sentences=16,
    batch_documents=2,
    long_share=0.3,
    learning_rate=1e-3,
    warmup=0.1,
    max_positions=96,
    held_out=40,
)
SIZE = 6


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "sentences.txt"
    path.write_text("\n".join(generated_sentences(400, 0)) + "\n", encoding="utf8")
    return path


@pytest.fixture(scope="module")
def whole(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    pretrain(vars(SMALL), text, folder, dev=load_pairs("generated_dev:40", DataPaths()), every=3000)
    return folder


@pytest.fixture
def corpus() -> Corpus:
    """120 sentences; every token of sentence i is 10 + i."""
    lengths = np.random.default_rng(0).integers(3, 30, 120)
    flat = np.repeat(np.arange(120) + 10, lengths).astype(np.int32)
    return Corpus(flat, np.cumsum(lengths) - lengths, lengths, cls_id=2, sep_id=3, mask_id=4, vocab_size=200)


def batches_of(corpus: Corpus, **changed) -> PretrainingBatches:
    recipe = replace(SMALL, batch_sentences=8, max_positions=64, held_out=20, **changed)
    return PretrainingBatches(corpus, recipe, np.random.default_rng(1))


def test_the_cards_of_the_shipped_encoders_are_recipes() -> None:
    cards = [json.loads(path.read_text()) for path in sorted(find_weights().glob("*/card.json"))]
    assert len(cards) >= 3
    for card in cards:
        recipe = Recipe.of_card(card["recipe"])
        assert (recipe.held_out, recipe.max_positions, recipe.seed) == (4000, 512, 0)
        assert (card["recipe"].get("vocabulary"), bool(card["recipe"].get("factorised"))) == (
            ("words_and_pieces", True) if recipe.embeddings else (None, False)
        )
        assert recipe.tokens <= card["tokens"] < recipe.tokens + 512 * recipe.batch_documents


def test_the_rate_rises_stays_and_falls() -> None:
    recipe = replace(SMALL, tokens=1000, warmup=0.1, learning_rate=2.0)
    rates = [recipe.rate(tokens) for tokens in (0, 50, 100, 400, 700, 850, 1000, 1200)]
    assert rates == pytest.approx([0, 1, 2, 2, 2, 1, 0, 0])


@pytest.mark.parametrize("long_share", [0.0, 0.5, 1.0])
def test_held_out_sentences_are_never_read(corpus: Corpus, long_share: float) -> None:
    batches = batches_of(corpus, long_share=long_share)
    seen = {int(token) for _ in range(300) for row in batches.rows()[0] for token in row[1:-1]}
    assert max(seen) < 10 + 100
    assert len(seen) > 95


def test_every_sentence_comes_once_an_epoch(corpus: Corpus) -> None:
    batches = batches_of(corpus, long_share=0.0)
    for _ in range(3):
        firsts = [int(row[1]) for _ in range(100 // 8) for row in batches.rows()[0]]
        assert len(set(firsts)) == len(firsts) == 100 // 8 * 8


def test_a_share_of_the_steps_is_long_and_holds_consecutive_text(corpus: Corpus) -> None:
    batches = batches_of(corpus, long_share=0.16)
    widths = [[len(row) for row in batches.rows()[0]] for _ in range(2000)]
    assert abs(widths.count([64, 64]) / 2000 - 0.16) < 3 * (0.16 * 0.84 / 2000) ** 0.5
    assert max(max(width) for width in widths if len(width) == 8) <= 31
    (row,) = corpus.runs(np.array([17]), 64)
    assert (row[0], row[-1], len(row)) == (2, 3, 64)
    assert row[1:-1].tolist() == corpus.flat[17:79].tolist()


def test_targets_are_the_true_ids_at_the_masked_slots(corpus: Corpus) -> None:
    rows = corpus.sentences(np.arange(60), 64)
    batch = mask_rows(rows, corpus, 0.2, np.random.default_rng(3))
    packed, at_M = batch.packed, batch.at_M
    assert batch.tokens == sum(map(len, rows))
    row_T = packed.order_N[packed.row_T()]
    assert batch.target_M.tolist() == [10 + row for row in row_T[at_M].tolist()]
    assert abs(len(at_M) / (batch.tokens - 2 * 60) - 0.2) < 0.05
    untouched = np.setdiff1d(np.flatnonzero(packed.attended_T()), at_M)
    ids = packed.ids_T[untouched]
    assert ((ids == row_T[untouched] + 10) | (ids == 2) | (ids == 3)).all()
    special = (packed.positions_T[at_M] == 0) | (packed.positions_T[at_M] == packed.lengths_N[packed.row_T()][at_M] - 1)
    assert not special.any()


def test_pairs_are_in_the_order_that_their_labels_say(corpus: Corpus) -> None:
    """Sentence i consists of tokens 10 + i."""
    batches = batches_of(corpus, long_share=0.0, cls_task="sentence_order")
    seen = {-1: 0, 0: 0, 1: 0}
    for _ in range(200):
        rows, pairs = batches.rows()
        labels = dict(zip(pairs[0].tolist(), pairs[1].tolist(), strict=True)) if pairs else {}
        for number, row in enumerate(rows):
            follows = int(labels.get(number, -1))
            parts = [part.tolist() for part in np.split(row[1:-1], np.flatnonzero(row[1:-1] == 3))]
            seen[follows] += 1
            assert max(map(len, parts)) <= 31 and max(part[-1] for part in parts) < 110
            assert len(parts) == 1 + (follows >= 0)
            if follows >= 0:
                first, second = (parts[0][0], parts[1][1]) if follows else (parts[1][1], parts[0][0])
                assert second == min(first + 1, 109)
    assert abs(seen[-1] / 1600 - 0.5) < 0.05 and abs(seen[1] / (seen[0] + seen[1]) - 0.5) < 0.06


def test_tokenising_in_chunks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer, sentences = load_tokenizer(find_weights() / "tokenizer"), generated_sentences(50, 0)
    whole = Corpus.of(sentences, tokenizer)
    monkeypatch.setattr("benchmarks.encoders.batches.SENTENCES_AT_ONCE", 7)
    parts = Corpus.of(sentences, tokenizer)
    assert (parts.flat == whole.flat).all() and (parts.starts == whole.starts).all()
    assert whole.flat[: whole.lengths[0]].tolist() == tokenizer(sentences[0])["input_ids"][1:-1]


def test_the_held_out_report_is_the_mean_of_its_bands_and_knows_a_model_that_knows_the_answer() -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(5, 40, 200)
    flat = rng.integers(5, 50, lengths.sum()).astype(np.int32)
    corpus = Corpus(flat, np.cumsum(lengths) - lengths, lengths, cls_id=2, sep_id=3, mask_id=4, vocab_size=50)
    recipe = replace(SMALL, max_positions=128, held_out=60)
    model = MaskedLM(recipe, 50).train()
    before = torch.get_rng_state()
    report = held_out_report(model, corpus, recipe)
    assert report == held_out_report(model, corpus, recipe)
    assert torch.equal(before, torch.get_rng_state()) and model.training
    bands = [band for band in report["bands"] if band["predictions"]]
    assert [(band["from"], band["to"]) for band in bands] == [(0, 64), (64, 128)]
    total, words = sum(band["predictions"] for band in bands), int(corpus.lengths[-60:].sum())
    assert abs(total - 0.2 * (words - words % 126)) < 4 * (0.16 * words) ** 0.5
    for name in ("loss", "accuracy"):
        mean = sum(band["predictions"] * band[name] for band in bands) / total
        assert report[name] == pytest.approx(mean, abs=2e-4)
    assert report["loss"] == pytest.approx(np.log(50), abs=0.1)
    corpus.flat[:] = 7  # a constant text and a head that always says its word
    with torch.no_grad():
        model.head.bias.zero_()
        model.head.bias[7] = 100.0
    known = held_out_report(model, corpus, recipe)
    assert (known["loss"], known["accuracy"], known["single_sentences"]["accuracy"]) == (0.0, 1.0, 1.0)


def test_every_position_is_trained(corpus: Corpus) -> None:
    recipe = replace(SMALL, tokens=2000, long_share=1.0)
    start = MaskedLM(recipe, corpus.vocab_size).encoder.position.weight.detach().clone()
    moved = (train(recipe, corpus, None).encoder.position.weight - start).abs().amax(1)
    assert moved.min() > 0


def test_a_run_leaves_a_model_that_learned_and_its_card(whole: Path) -> None:
    backbone, card = load_backbone(str(whole)), json.loads((whole / "card.json").read_text())
    assert card["recipe"] == vars(SMALL) and 9000 <= card["tokens"] < 9000 + 2 * 96 * 16
    assert card["tokenizer_hash"] == backbone.tokenizer_hash and backbone.head is not None
    losses = [point["loss"] for point in card["training_loss"]]
    assert losses[-1] < losses[0] - 0.3 and card["held_out"]["loss"] < np.log(8192)
    assert [set(point) for point in card["sts_dev_against_tokens"]] == [
        {"tokens", "cls_no_mlp", "mean", "first_last"}
    ] * 3


def test_looking_more_often_changes_no_weight(text: Path, whole: Path, tmp_path: Path) -> None:
    torch.manual_seed(99)
    pretrain(vars(SMALL), text, tmp_path, every=1000)
    assert (tmp_path / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def vectors(text: Path) -> Path:
    """A vector for each word of the text that begins with a letter before t, and for one that the text has not."""
    words = sorted({word for word in re.findall(r"\w+", text.read_text().lower()) if word < "t"})
    rows = np.random.default_rng(0).normal(1.0, 2.0, (len(words) + 1, SIZE))
    path = text.with_name("vectors.txt")
    lines = [f"{word} {' '.join(f'{x:.4f}' for x in row)}" for word, row in zip(["zzz", *words], rows, strict=True)]
    path.write_text("\n".join(lines) + "\n", encoding="utf8")
    return path


@pytest.mark.parametrize("frozen", [0.0, 1.0])
def test_frozen_rows_are_their_vectors_times_one_map(text: Path, vectors: Path, tmp_path: Path, frozen: float) -> None:
    recipe = replace(SMALL, tokens=4000, embeddings=str(vectors), frozen=frozen, cls_task="sentence_order")
    pretrain(vars(recipe), text, tmp_path)
    backbone = load_backbone(str(tmp_path))
    vocabulary, table = backbone.tokenizer.get_vocab(), backbone.encoder.word.weight.detach()
    own_words, own_VD, _ = load_words(str(vectors))
    words = [word for word in vocabulary if own_words.get_vocab().get(word, len(own_VD)) < len(own_VD)]
    assert len(words) > 30 and "zzz" not in words
    rows = table[[vocabulary[word] for word in words]]
    start = torch.from_numpy(np.stack([own_VD[own_words.get_vocab()[word]] for word in words]))
    map_DH = torch.linalg.lstsq(start - start.mean(0), rows).solution
    left = (rows - (start - start.mean(0)) @ map_DH).norm() / rows.norm()
    assert (left < 1e-3) == (frozen == 1.0), left
    assert backbone.tokenizer.tokenize(words[20].upper()) == [words[20]]
    assert len(backbone.tokenizer.tokenize("unbelievably")) > 1
    assert [backbone.tokenizer.cls_token_id, backbone.tokenizer.sep_token_id] == [2, 3]


def test_rows_are_free_after_their_share_of_the_tokens(text: Path, vectors: Path, tmp_path: Path) -> None:
    recipe = replace(SMALL, tokens=4000, embeddings=str(vectors), frozen=0.5)
    start = write_tokenizer(recipe, text.read_text().splitlines(), tmp_path)
    corpus = Corpus.of(text.read_text().splitlines(), load_tokenizer(tmp_path))
    tables: dict[int, torch.Tensor] = {}
    train(
        recipe,
        corpus,
        start,
        700,
        lambda model, at, _: tables.update({at: model.encoder.word.factor_VD.detach().clone()}),
    )
    held = [table for at, table in tables.items() if at <= 2000]
    assert len(held) >= 2 and all(torch.equal(table[start.ids_K], start.vectors_KD) for table in held)
    assert not torch.equal(held[0][2], held[1][2]), "[CLS] is trained all the time"
    assert (tables[max(tables)][start.ids_K] != start.vectors_KD).any(1).float().mean() > 0.9


@pytest.mark.parametrize(("rate", "loss"), [(1e4, "nan"), (1.0, r"[\d.]+")])
def test_a_run_that_diverges_writes_no_weights(text: Path, tmp_path: Path, rate: float, loss: str) -> None:
    with pytest.raises(Diverged, match=rf"^loss is {loss} after \d+ tokens, guessing has 9.01; lower learning_rate$"):
        pretrain(vars(replace(SMALL, tokens=4000, learning_rate=rate)), text, tmp_path)
    assert not (tmp_path / "model.safetensors").exists() and not (tmp_path / "card.json").exists()
