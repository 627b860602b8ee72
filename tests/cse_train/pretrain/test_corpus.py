"""What pretraining reads: no held-out sentence, every sentence once an epoch, masks that can be checked."""

import gzip

import numpy as np
import pytest

from cse_train.backbone.folders import find_weights
from cse_train.backbone.identity import load_tokenizer
from cse_train.fields import ConfigError
from cse_train.pretrain.config import PretrainConfig, learning_rate
from cse_train.pretrain.corpus import Corpus, PretrainingBatches, mask_rows, read_lines, text_hash, tokenise
from cse_train.text.corpora.generated import sentences as generated_sentences


@pytest.fixture
def corpus() -> Corpus:
    """120 sentences; every token of sentence i is 10 + i."""
    lengths = np.random.default_rng(0).integers(3, 30, 120)
    flat = np.repeat(np.arange(120) + 10, lengths).astype(np.int32)
    return Corpus(flat, np.cumsum(lengths) - lengths, lengths, cls_id=2, sep_id=3, mask_id=4, vocab_size=200)


def small(**changed) -> PretrainConfig:
    return PretrainConfig(**{"batch_sentences": 8, "batch_documents": 2, "max_positions": 64, "held_out": 20} | changed)


@pytest.mark.parametrize("long_share", [0.0, 0.5, 1.0])
def test_held_out_sentences_are_never_read(corpus, long_share):
    batches = PretrainingBatches(corpus, small(long_share=long_share), np.random.default_rng(1))
    seen = {int(token) for _ in range(300) for row in batches._rows()[0] for token in row[1:-1]}
    assert max(seen) < 10 + 100
    assert len(seen) > 95


def test_every_sentence_comes_once_an_epoch(corpus):
    batches = PretrainingBatches(corpus, small(long_share=0.0), np.random.default_rng(1))
    per_epoch = 100 // 8
    for _ in range(3):
        firsts = [int(row[1]) for _ in range(per_epoch) for row in batches._rows()[0]]
        assert len(set(firsts)) == len(firsts) == per_epoch * 8


def test_share_and_width_of_long_steps(corpus):
    batches = PretrainingBatches(corpus, small(long_share=0.16), np.random.default_rng(2))
    widths = [[len(row) for row in batches._rows()[0]] for _ in range(2000)]
    long_steps = [w for w in widths if w == [64, 64]]
    assert abs(len(long_steps) / 2000 - 0.16) < 3 * (0.16 * 0.84 / 2000) ** 0.5
    assert max(max(w) for w in widths if len(w) == 8) <= 31


def test_long_rows_are_consecutive_text(corpus):
    (row,) = corpus.runs(np.array([17]), 64)
    assert (row[0], row[-1], len(row)) == (2, 3, 64)
    assert row[1:-1].tolist() == corpus.flat[17:79].tolist()


def test_targets_are_the_true_ids_at_the_masked_slots(corpus):
    rows = corpus.sentences(np.arange(60), 64)
    batch = mask_rows(rows, corpus, 0.2, np.random.default_rng(3))
    packed, at_M, target_M, tokens = batch.packed, batch.at_M, batch.target_M, batch.tokens
    assert tokens == sum(map(len, rows))
    row_T = packed.order_N[packed.row_T()]
    assert target_M.tolist() == [10 + row for row in row_T[at_M].tolist()]
    assert abs(len(at_M) / (tokens - 2 * 60) - 0.2) < 0.05
    untouched = np.setdiff1d(np.flatnonzero(packed.attended_T()), at_M)
    ids = packed.ids_T[untouched]
    assert ((ids == row_T[untouched] + 10) | (ids == 2) | (ids == 3)).all()
    special = (packed.positions_T[at_M] == 0) | (packed.positions_T[at_M] == packed.lengths_N[packed.row_T()][at_M] - 1)
    assert not special.any()


def test_learning_rate_rises_stays_and_falls():
    config = PretrainConfig(tokens=1000, warmup=0.1, cooldown=0.3, learning_rate=2.0)
    rates = [learning_rate(config, tokens) for tokens in (0, 50, 100, 400, 700, 850, 1000, 1200)]
    assert rates == pytest.approx([0, 1, 2, 2, 2, 1, 0, 0])


def test_learning_rate_of_a_longer_total_differs_only_at_the_ends():
    short, long = (PretrainConfig(tokens=tokens, learning_rate=2.0) for tokens in (1000, 2000))
    assert [learning_rate(short, t) == learning_rate(long, t) for t in (40, 300, 700, 900)] == [True, True, True, False]


def test_a_run_cut_short_is_the_run_with_a_longer_warmup():
    begun, ended = PretrainConfig(tokens=110_000_000), PretrainConfig(tokens=84_000_000)
    equal = PretrainConfig(tokens=84_000_000, warmup=begun.warmup * begun.tokens / ended.tokens)
    assert all(learning_rate(begun, t) == learning_rate(equal, t) for t in range(1, 40_000_000, 99_991))
    assert learning_rate(equal, 80_000_000) == learning_rate(ended, 80_000_000)


def test_tokenising_in_chunks_changes_nothing(monkeypatch):
    tokenizer = load_tokenizer(find_weights() / "tokenizer")
    sentences = generated_sentences(50, 0)
    whole = tokenise(sentences, tokenizer)
    monkeypatch.setattr("cse_train.pretrain.corpus.SENTENCES_AT_ONCE", 7)
    parts = tokenise(sentences, tokenizer)
    assert (parts.flat == whole.flat).all() and (parts.starts == whole.starts).all()
    assert whole.flat[: whole.lengths[0]].tolist() == tokenizer(sentences[0])["input_ids"][1:-1]


def test_plain_and_gzipped_text_have_one_hash(tmp_path):
    text = "First one.\n\n  Zweiter Satz über é.  \n"
    (tmp_path / "a.txt").write_text(text, encoding="utf8")
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(text.encode()))
    assert list(read_lines(tmp_path / "a.txt.gz")) == ["First one.", "Zweiter Satz über é."]
    assert text_hash(tmp_path / "a.txt") == text_hash(tmp_path / "a.txt.gz")


def test_text_that_is_not_utf8_is_one_line(tmp_path):
    (tmp_path / "a.txt").write_bytes("\xe9t\xe9\n".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"^not UTF-8: .*a\.txt .*; convert it"):
        list(read_lines(tmp_path / "a.txt"))


@pytest.mark.parametrize("task", ["next_sentence", "sentence_order"])
def test_pairs_are_what_their_labels_say(corpus, task):
    """Sentence i consists of tokens 10 + i."""
    batches = PretrainingBatches(corpus, small(long_share=0.0, cls_task=task), np.random.default_rng(1))
    seen = {-1: 0, 0: 0, 1: 0}
    for _ in range(200):
        rows, pairs = batches._rows()
        of_pairs = dict(zip(pairs.at_P.tolist(), pairs.follows_P.tolist(), strict=True)) if pairs else {}
        for row, follows in ((row, int(of_pairs.get(number, -1))) for number, row in enumerate(rows)):
            parts = [part.tolist() for part in np.split(row[1:-1], np.flatnonzero(row[1:-1] == 3))]
            first, second = parts[0][0], (parts[1][1] if len(parts) > 1 else None)
            seen[follows] += 1
            assert max(map(len, parts)) <= 31 and max(part[-1] for part in parts) < 110
            if follows == -1:
                assert second is None
            elif follows == 1:
                assert second == min(first + 1, 109)
            elif task == "sentence_order":
                assert first == min(second + 1, 109)
    assert abs(seen[-1] / 1600 - 0.5) < 0.05 and abs(seen[1] / (seen[0] + seen[1]) - 0.5) < 0.06
