"""Averages of word vectors from a file: both published formats, words with blanks, and what is wrong with a line."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from cse.cli.app import main
from cse_train.evaluate.models import open_model
from cse_train.evaluate.pairs import Pairs
from cse_train.evaluate.vectors import sts_protocol
from cse_train.fields import ConfigError
from cse_train.text.generated import sentences

GLOVE = "the 1 0 0.5\n. . . 0 2 -1e-1\nRiver 3 3 3\nriver 0 4 1\nname@domain.com 1 1 1\nat name@domain.com 9 9 9\n"


def file_of(folder: Path, text: str, name: str = "glove.txt") -> Path:
    (folder / name).write_text(text, encoding="utf8")
    return folder / name


def test_the_mean_of_the_known_words_by_hand(tmp_path: Path) -> None:
    model = open_model(file_of(tmp_path, GLOVE))
    found = model.embed(["the river", "the River", "THE river unknown river", "nothing known", "", "the river"])
    wanted = [[0.5, 2, 0.75], [2, 1.5, 1.75], [1 / 3, 8 / 3, 2.5 / 3], [0, 0, 0], [0, 0, 0], [0.5, 2, 0.75]]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert found.dtype == np.float32


def test_a_word_with_blanks_is_a_word_and_its_parts_are_not(tmp_path: Path) -> None:
    model = open_model(file_of(tmp_path, GLOVE))
    assert set(model.places) == {b"the", b". . .", b"River", b"river", b"name@domain.com", b"at name@domain.com"}
    assert model.embed([". . .", "at name@domain.com"]).tolist() == [[0, 0, 0], [1, 1, 1]]


def test_fasttext_s_first_line_is_no_word(tmp_path: Path) -> None:
    with_head = open_model(file_of(tmp_path, "2 3\nthe 1 0 0.5\nriver 0 4 1 \n", "crawl.vec"))
    without = open_model(file_of(tmp_path, GLOVE))
    assert set(with_head.places) == {b"the", b"river"}
    np.testing.assert_array_equal(with_head.embed(["the river 2"]), without.embed(["the river"]))


def test_the_file_s_hash_stands_in_the_protocol(tmp_path: Path) -> None:
    digest = hashlib.sha256(GLOVE.encode()).hexdigest()
    model = open_model(file_of(tmp_path, GLOVE))
    pairs = Pairs("sts_dev", ("a",), ("b",), np.array([1.0]), "hash")
    assert model.content_hash == digest
    assert sts_protocol(pairs, model).pooler == f"mean of glove.txt, sha256 {digest[:12]}"


def test_at_most_so_many_words(tmp_path: Path) -> None:
    model = open_model(file_of(tmp_path, GLOVE), max_length=1)
    assert model.max_length == 1 and model.embed(["the river"]).tolist() == [[1, 0, 0.5]]


def test_equals_a_dictionary_on_many_texts(tmp_path: Path) -> None:
    texts = sentences(60, seed=3)
    words = sorted({word.lower() for text in texts for word in text.split()})[::2]
    table = {word: np.random.default_rng(at).normal(size=5).round(6) for at, word in enumerate(words)}
    lines = [f"{word} {' '.join(map(str, vector))}" for word, vector in table.items()]
    model = open_model(file_of(tmp_path, f"{len(table)} 5\n" + "\n".join(lines), "made.vec"))
    for text, found in zip(texts, model.embed(texts), strict=True):
        known = [table[word.lower()] for word in text.split() if word.lower() in table]
        np.testing.assert_allclose(found, np.mean(known, axis=0) if known else np.zeros(5), atol=1e-5)


@pytest.mark.parametrize(
    ("text", "name", "line"),
    [
        (
            "a 1 2\nb 1\n",
            "g.txt",
            r"^wrong vector: .*g.txt, line 2 has 1 values, the file 2; correct or fetch it again$",
        ),
        ("a 1 2\nb 1 2 3\n", "g.txt", r"^wrong vector: .*g.txt, line 2 has 3 values, the file 2"),
        ("2 3\na 1 2 3\nb 1 2\n", "g.vec", r"^wrong vector: .*g.vec, line 3 has 2 values, the file 3"),
        ("a 1 2\n\nb 1 2\n", "g.txt", r"^wrong vector: .*g.txt, line 2 has 0 values, the file 2"),
        ("3 2\na 1 2\nb 1 2\n", "g.vec", r"^truncated data: .*g.vec: 3 words expected, 2 found; fetch it again$"),
        ("", "g.txt", r"^no word: .*g.txt is empty; fetch the file again$"),
        (GLOVE, "glove.zip", r"^not word vectors: model=.*glove.zip; give a text file of .txt or .vec, .* unpacked$"),
    ],
)
def test_a_broken_file_is_one_line(text: str, name: str, line: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=line):
        open_model(file_of(tmp_path, text, name))


def test_what_is_no_number_is_one_line_with_its_number(tmp_path: Path) -> None:
    model = open_model(file_of(tmp_path, "the 1 2\nriver 1 two\nstone nan 1\n"))
    assert model.embed(["the"]).tolist() == [[1, 2]]
    with pytest.raises(ConfigError, match=r"^not a number: .*glove.txt, line 2 \(river\): .*two.*; correct the line"):
        model.embed(["the river"])
    with pytest.raises(ConfigError, match=r"^not finite: .*glove.txt, line 3; correct the line$"):
        model.embed(["stone"])


def test_a_pooler_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^no pooler: pooler=mean of the word vectors .*; leave the pooler out$"):
        open_model(file_of(tmp_path, GLOVE), pooler="mean")


def test_the_command_scores_a_file(tmp_path: Path, data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = file_of(tmp_path, GLOVE)
    assert main(["eval", str(file), "--suite", "sts_dev", "--data", str(data_dir)]) == 0
    said = capsys.readouterr().out
    assert f"pooler mean of glove.txt, sha256 {hashlib.sha256(GLOVE.encode()).hexdigest()[:12]}" in said
