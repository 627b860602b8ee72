"""Synonyms from a dictionary of our own in WordNet's format, and from the real one where it is installed."""

from pathlib import Path

import numpy as np
import pytest

from cse_train.fields import ConfigError
from cse_train.text.augment import join_words, replace_one, split_words
from cse_train.text.synonyms import DEBIAN_FOLDER, FILES, Synonyms, read_wordnet, wordnet_folder, wordnet_hash
from cse_train.text.tokens import tokenise

LICENCE = "  1 This software and database is being provided to you\n  2 under the following licence.  \n"


def test_every_other_word_of_every_synset_is_a_synonym(ten_words: Path) -> None:
    entries = read_wordnet(ten_words)
    assert entries["river"] == ("stream", "watercourse")
    assert entries["road"] == ("main route", "route")
    assert entries["old"] == ("aged",)  # the marker (a) is not part of the word
    assert "main route" not in entries


def test_synonyms_keep_punctuation_and_capital(ten_words: Path, tokenizer) -> None:
    synonyms = Synonyms(ten_words, tokenizer)
    for text, expected in {"(river,": ["(stream,", "(watercourse,"], "Road": ["Main route", "Route"]}.items():
        ids, _, starts = tokenise([text], tokenizer, None)
        wanted = [tokenizer(other)["input_ids"][1:-1] for other in expected]
        assert [other.tolist() for other in synonyms(split_words(ids, starts)[0])] == wanted


def test_stop_words_and_unknown_words_stay(ten_words: Path, tokenizer) -> None:
    synonyms = Synonyms(ten_words, tokenizer)
    assert "in" in synonyms.entries
    for text in ("in", "rivers", "river-bed", "!"):
        ids, _, starts = tokenise([text], tokenizer, None)
        assert synonyms(split_words(ids, starts)[0]) == []


def test_S1_synonym_replacement_is_the_tokenised_text_with_one_word_changed(ten_words: Path, tokenizer) -> None:
    ids, _, starts = tokenise(["the old river in winter"], tokenizer, None)
    synonyms, rng = Synonyms(ten_words, tokenizer), np.random.default_rng(0)
    edited = {tuple(join_words(ids, replace_one(split_words(ids, starts), synonyms, rng))) for _ in range(100)}
    texts = ["the aged river", "the old stream", "the old watercourse"]
    assert edited == {tuple(tokenizer(f"{text} in winter")["input_ids"]) for text in texts}


def test_hash_follows_the_files(ten_words: Path, tmp_path: Path) -> None:
    for name in FILES:
        (tmp_path / name).write_bytes((ten_words / name).read_bytes())
    assert wordnet_hash(tmp_path) == wordnet_hash(ten_words)
    (tmp_path / "data.adv").write_text(LICENCE)
    assert wordnet_hash(tmp_path) != wordnet_hash(ten_words)


def test_absent_files_name_the_option_and_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cse_train.text.synonyms.DEBIAN_FOLDER", tmp_path)
    for given, shown in ((None, "null"), (str(tmp_path), str(tmp_path))):
        line = rf"^no WordNet: method.synonyms={shown}; .* has no data.noun, .*apt install wordnet-base, or give"
        with pytest.raises(ConfigError, match=line) as error:
            wordnet_folder(given)
        assert len(error.value.problems) == 1 and "\n" not in error.value.problems[0]


@pytest.mark.parametrize("line", ["some text", "00000001 00 n 0x river 0", "00000001 00 n 03 river 0 stream 0"])
def test_other_files_give_one_line(ten_words: Path, tmp_path: Path, line: str) -> None:
    for name in FILES:
        (tmp_path / name).write_text(LICENCE)
    (tmp_path / "data.verb").write_text(LICENCE + line + "\n")
    with pytest.raises(ConfigError, match=r"^not a WordNet file: .*data.verb, line 3; give"):
        read_wordnet(tmp_path)


def test_real_wordnet() -> None:
    if not all((DEBIAN_FOLDER / name).is_file() for name in FILES):
        pytest.skip("no WordNet here: apt install wordnet-base")
    entries = read_wordnet(DEBIAN_FOLDER)
    assert len(entries) > 60_000
    assert {"auto", "automobile", "motorcar", "railway car"} <= set(entries["car"])
    assert {"fast", "speedy"} <= set(entries["quick"])
