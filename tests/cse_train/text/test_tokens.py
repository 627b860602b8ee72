import errno
import multiprocessing
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from cse_train import files
from cse_train.fields import ConfigError
from cse_train.text import tokens
from cse_train.text.file_corpora import Source
from cse_train.text.files import chunks
from cse_train.text.tokens import open_store, tokenise, tokenizer_hash

TEXTS = ["Anarchists' unbelievable story.", "two  words", "x", "naïve café — 北京 \U0001f642 end"]
FORK = multiprocessing.get_context("fork")


def byte_level() -> PreTrainedTokenizerFast:
    """A RoBERTa-like tokenizer whose pieces may be single bytes."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["<s>", "</s>"], initial_alphabet=alphabet)
    made.train_from_iterator(["a story of two words, two words"], trainer)
    made.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0), trim_offsets=True)
    return PreTrainedTokenizerFast(tokenizer_object=made, cls_token="<s>", sep_token="</s>")


def test_rows_are_the_tokenizers_ids_cut_to_length(tokenizer, source_of, tmp_path: Path) -> None:
    store = open_store(source_of(TEXTS), tokenizer, 8, tmp_path)
    column = store.column("text")
    expected = [tokenizer(text, truncation=True, max_length=8)["input_ids"] for text in TEXTS]
    assert [column.row(i).tolist() for i in range(store.rows)] == expected
    assert column.lengths.max() == 8
    kinds = (column.flat.dtype, column.starts.dtype, column.lengths.dtype, column.word_starts.dtype)
    assert kinds == (np.int32, np.int64, np.int32, np.uint8)
    assert not column.flat.flags.writeable


def test_word_starts_follow_blanks_and_not_the_tokenizers_own_words(tokenizer) -> None:
    flat, lengths, begins = tokenise(["un##x co-op, story"], tokenizer, 32)
    pieces = tokenizer.convert_ids_to_tokens(flat.tolist())
    words = [p for p, b in zip(pieces, begins, strict=True) if b]
    assert lengths.tolist() == [len(pieces)]
    assert words[0] == "[CLS]" and words[-1] == "[SEP]"
    assert int(begins.sum()) == 3 + 2


def test_every_word_starts_once_for_bytes_too(tokenizer) -> None:
    for made in (tokenizer, byte_level()):
        _, lengths, begins = tokenise(TEXTS, made, 64)
        per_row = [int(row.sum()) for row in np.split(begins, np.cumsum(lengths)[:-1])]
        assert per_row == [len(text.split()) + 2 for text in TEXTS]


def test_hash_ignores_the_last_call_and_sees_the_vocabulary(tokenizer) -> None:
    before = tokenizer_hash(tokenizer)
    tokenizer(["some text"], truncation=True, max_length=3, padding="max_length")
    assert tokenizer_hash(tokenizer) == before
    other = byte_level()
    with_one_more = tokenizer_hash(other)
    other.add_tokens(["extra"])
    assert len({before, with_one_more, tokenizer_hash(other)}) == 3


def test_slow_tokenizer_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^slow tokenizer: object has no fast form"):
        tokenizer_hash(object())


def test_columns_and_chunks(tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(f"left {i}", f"right words {i}") for i in range(10)]
    source = Source("pairs", ("sent0", "sent1"), "h", lambda: iter(rows))
    whole = open_store(source, tokenizer, 16, tmp_path / "whole")
    monkeypatch.setattr(tokens, "ROWS_AT_ONCE", 3)
    chunked = open_store(source, tokenizer, 16, tmp_path / "chunked")
    assert whole.content_hash == chunked.content_hash and chunked.rows == 10
    for name in ("sent0", "sent1"):
        for part in tokens.STORE_PARTS:
            assert np.array_equal(getattr(whole.column(name), part), getattr(chunked.column(name), part))
    with pytest.raises(ConfigError, match="the corpus has sent0, sent1 but the method reads text"):
        whole.column("text")


def test_long_texts_are_tokenised_few_at_once(
    tokenizer, source_of, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["a " * 30, "b", "c " * 50, "d", "e"]
    whole = open_store(source_of(texts), tokenizer, None, tmp_path / "whole").column("text")
    monkeypatch.setattr("cse_train.text.files.CHUNK_CHARACTERS", 60)
    assert [len(chunk) for chunk in chunks(source_of(texts).rows(), tokens.ROWS_AT_ONCE)] == [1, 2, 2]
    parts = open_store(source_of(texts), tokenizer, None, tmp_path / "parts").column("text")
    assert np.array_equal(whole.flat, parts.flat) and np.array_equal(whole.starts, parts.starts)


def test_second_opening_reads_nothing_and_other_settings_build_anew(tokenizer, source_of, tmp_path: Path) -> None:
    source = source_of(TEXTS)
    first = open_store(source, tokenizer, 16, tmp_path)
    unread = Source(source.name, source.columns, source.content_hash, lambda: pytest.fail("read again"))
    assert open_store(unread, tokenizer, 16, tmp_path).content_hash == first.content_hash
    assert open_store(source, tokenizer, 17, tmp_path).content_hash != first.content_hash
    assert open_store(source_of(TEXTS[:2]), tokenizer, 16, tmp_path).content_hash != first.content_hash


def test_cache_folder_comes_from_the_environment(tokenizer, source_of, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("CSE_CACHE", str(tmp_path / "named"))
    assert open_store(source_of(TEXTS), tokenizer, 16).folder.is_relative_to(tmp_path / "named")


@pytest.mark.parametrize(
    "damage", ["meta.json missing", "meta.json cut", "flat cut", "lengths missing", "empty folder"]
)
def test_half_written_cache_is_built_again(damage: str, tokenizer, source_of, tmp_path: Path) -> None:
    folder = open_store(source_of(TEXTS), tokenizer, 16, tmp_path).folder
    if damage == "empty folder":
        shutil.rmtree(folder)
        folder.mkdir()
    elif damage.endswith("missing"):
        (folder / damage.replace("lengths", "0.lengths").split()[0]).unlink()
    else:
        file = folder / damage.replace("flat", "0.flat").split()[0]
        os.truncate(file, file.stat().st_size - 4)
    store = open_store(source_of(TEXTS), tokenizer, 16, tmp_path)
    assert store.folder == folder and store.rows == len(TEXTS)
    assert store.column("text").row(2).tolist() == tokenizer("x")["input_ids"]
    assert sorted(p.name for p in folder.parent.iterdir()) == [folder.name, folder.name + ".lock"]


def test_killed_builder_leaves_nothing_that_is_read(tokenizer, source_of, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tokens, "ROWS_AT_ONCE", 2)
    source = source_of(TEXTS)

    def hanging() -> Iterator[tuple[str]]:
        yield from ((text,) for text in TEXTS[:2])
        time.sleep(60)

    slow = Source(source.name, source.columns, source.content_hash, hanging)
    builder = FORK.Process(target=open_store, args=(slow, tokenizer, 16, tmp_path))
    builder.start()
    while not list(tmp_path.glob("tokens/*/0.flat")):
        time.sleep(0.01)
    os.kill(builder.pid, signal.SIGKILL)
    builder.join()
    store = open_store(source, tokenizer, 16, tmp_path)
    assert store.rows == len(TEXTS)
    assert sorted(p.name for p in store.folder.parent.iterdir()) == [store.folder.name, store.folder.name + ".lock"]


@pytest.mark.parametrize("locks", [True, False])
def test_builders_at_once_agree(locks: bool, tokenizer, source_of, tmp_path: Path, monkeypatch) -> None:
    source = source_of([f"sentence {i}" for i in range(120)])
    if not locks:
        monkeypatch.setattr(files.fcntl, "flock", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOLCK, "no locks")))
    monkeypatch.setattr(tokens, "ROWS_AT_ONCE", 50)
    builders = [FORK.Process(target=open_store, args=(source, tokenizer, 16, tmp_path)) for _ in range(2)]
    for builder in builders:
        builder.start()
    store = open_store(source, tokenizer, 16, tmp_path)
    for builder in builders:
        builder.join()
    assert [builder.exitcode for builder in builders] == [0, 0]
    assert store.column("text").row(119).tolist() == tokenizer("sentence 119")["input_ids"]
    assert sorted(p.name for p in store.folder.parent.iterdir()) == [store.folder.name, store.folder.name + ".lock"]


def test_empty_source_and_unwritable_cache_are_the_users_mistakes(tokenizer, source_of, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^empty data: train.corpus=made has no sentence"):
        open_store(source_of([]), tokenizer, 16, tmp_path)
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(ConfigError, match=r"^cannot write: token cache="):
        open_store(source_of(TEXTS), tokenizer, 16, tmp_path / "file")
