"""Word-level editing: SimCSE's augmentations (S1) and ESimCSE's word repetition and insertions (E4)."""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import chisquare

from cse_train.text.augment import (
    Words,
    crop,
    delete_one,
    delete_words,
    insert_after,
    join_words,
    repeat_words,
    replace_one,
    select_positions,
    split_words,
    truncate,
)
from cse_train.text.synonyms import STOP_WORDS, stop_word_ids
from cse_train.text.tokens import tokenise

CLS, SEP = 101, 102
TEXT = "The microbiologists, said Mr. Jones-Smith (1998), weren't  overwhelmed"


def words_of(count: int) -> Words:
    """Distinct words of one to three sub-words."""
    return [np.arange(1000 + 10 * i, 1001 + 10 * i + i % 3) for i in range(count)]


def as_lists(words: Words) -> list[list[int]]:
    return [word.tolist() for word in words]


@pytest.fixture
def sentence(tokenizer):
    """Text -> (ids, its words)."""

    def split(text: str) -> tuple[np.ndarray, Words]:
        ids, _, word_starts = tokenise([text], tokenizer, None)
        return ids, split_words(ids, word_starts)

    return split


def test_words_are_what_stands_between_blanks(sentence) -> None:
    ids, words = sentence(TEXT)
    assert len(words) == len(TEXT.split()) and max(map(len, words)) > 1
    assert np.array_equal(join_words(ids, words), ids)


@pytest.mark.parametrize("edit", ["crop", "delete", "repeat"])
def test_edited_ids_are_the_ids_of_the_edited_text(sentence, tokenizer, edit: str) -> None:
    ids, words = sentence(TEXT)
    texts = [np.array([i]) for i in range(len(words))]  # the same edit on the words' numbers tells which stayed
    edits = {
        "crop": lambda w: crop(w, 0.3, np.random.default_rng(4)),
        "delete": lambda w: delete_words(w, 0.3, np.random.default_rng(4)),
        "repeat": lambda w: repeat_words(w, np.array([1, 4])),
    }
    edited = " ".join(TEXT.split()[int(i)] for i in np.concatenate(edits[edit](texts)))
    assert edited != " ".join(TEXT.split())
    assert join_words(ids, edits[edit](words)).tolist() == tokenizer(edited)["input_ids"]


@pytest.mark.parametrize(
    ("words", "rate", "out"),
    [(10, 0.1, 1), (10, 0.2, 2), (10, 0.3, 3), (4, 0.1, 0), (5, 0.1, 1), (1, 0.9, 0), (2, 0.9, 1), (0, 0.5, 0)],
)
def test_S1_how_many_words_cropping_and_deletion_take_out(words: int, rate: float, out: int) -> None:
    rng = np.random.default_rng(0)
    for edit in (crop, delete_words):
        assert {len(edit(words_of(words), rate, rng)) for _ in range(20)} == {words - out}


def test_S1_crop_keeps_a_contiguous_span_anywhere() -> None:
    rng = np.random.default_rng(1)
    firsts = Counter()
    for _ in range(4000):
        kept = as_lists(crop(words_of(10), 0.3, rng))
        first = as_lists(words_of(10)).index(kept[0])
        assert kept == as_lists(words_of(10))[first : first + 7]
        firsts[first] += 1
    assert sorted(firsts) == [0, 1, 2, 3]
    assert chisquare(list(firsts.values())).pvalue > 1e-3


@pytest.mark.parametrize("edit", [lambda w, rng: delete_words(w, 0.3, rng), delete_one])
def test_S1_deletion_takes_any_word_alike_and_keeps_the_order(edit) -> None:
    rng = np.random.default_rng(2)
    all_words = as_lists(words_of(10))
    gone: Counter[int] = Counter()
    for _ in range(3000):
        kept = as_lists(edit(words_of(10), rng))
        assert kept == [word for word in all_words if word in kept]
        gone.update(i for i in range(10) if all_words[i] not in kept)
    assert sum(gone.values()) == 3000 * (10 - len(kept))
    assert chisquare([gone[i] for i in range(10)]).pvalue > 1e-3


def test_S1_a_sentence_of_one_word_or_none_is_never_emptied() -> None:
    rng = np.random.default_rng(3)
    for words in (words_of(1), []):
        for edited in (crop(words, 0.9, rng), delete_words(words, 0.9, rng), delete_one(words, rng)):
            assert as_lists(edited) == as_lists(words)
    assert len(delete_one(words_of(2), rng)) == 1


def test_S1_one_word_with_an_alternative_is_replaced() -> None:
    rng = np.random.default_rng(4)
    alternatives = {1010: [np.array([7]), np.array([8, 9])], 1030: [np.array([6])]}
    seen: Counter[tuple] = Counter()
    for _ in range(3000):
        edited = replace_one(words_of(5), lambda word: alternatives.get(int(word[0]), []), rng)
        pairs = zip(as_lists(words_of(5)), as_lists(edited), strict=True)
        changed = [(i, *new) for i, (old, new) in enumerate(pairs) if old != new]
        assert len(changed) == 1
        seen[changed[0]] += 1
    assert sorted(seen) == [(1, 7), (1, 8, 9), (3, 6)]
    assert chisquare([seen[k] for k in sorted(seen)], [750, 750, 1500]).pvalue > 1e-3
    assert as_lists(replace_one(words_of(5), lambda word: [], rng)) == as_lists(words_of(5))


@pytest.mark.parametrize(
    ("rule", "words", "rate", "largest"),
    [
        ("paper", 6, 0.32, 2),  # int(.32 * 6) = 1, but at least 2
        ("paper", 30, 0.32, 9),
        ("released", 6, 0.32, 1),  # randrange(max(2, 1))
        ("released", 30, 0.32, 8),  # randrange(9)
        ("released", 60, 0.32, 9),  # randrange(min(10, 19))
        ("released", 2, 0.32, 1),
    ],
)
def test_T17_number_of_repeated_words_is_uniform(rule: str, words: int, rate: float, largest: int) -> None:
    rng = np.random.default_rng(5)
    counts = np.bincount([len(select_positions(words, rate, rng, rule)) for _ in range(6000)], minlength=largest + 1)
    assert len(counts) == largest + 1
    assert chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize(("rule", "choices"), [("paper", 12), ("released", 11)])
def test_T17_every_word_is_equally_likely_but_the_released_rule_leaves_the_last(rule: str, choices: int) -> None:
    rng = np.random.default_rng(6)
    drawn = [select_positions(12, 0.4, rng, rule) for _ in range(5000)]
    assert all(np.array_equal(at, np.unique(at)) for at in drawn)
    counts = np.bincount(np.concatenate(drawn), minlength=choices)
    assert len(counts) == choices
    assert chisquare(counts).pvalue > 1e-3


def test_T17_short_sentences_and_rate_zero() -> None:
    rng = np.random.default_rng(7)
    assert {len(select_positions(1, 0.32, rng)) for _ in range(50)} == {0, 1}
    assert {len(select_positions(1, 0.32, rng, "released")) for _ in range(50)} == {0}
    for rule in ("paper", "released"):
        assert len(select_positions(0, 0.32, rng, rule)) == len(select_positions(30, 0.0, rng, rule)) == 0


@pytest.mark.parametrize("rule", ["paper", "released"])
def test_T17_deleting_adjacent_duplicate_words_recovers_the_sentence(rule: str) -> None:
    rng = np.random.default_rng(8)
    for _ in range(200):
        at = select_positions(20, 0.32, rng, rule)
        view = as_lists(repeat_words(words_of(20), at))
        assert [w for i, w in enumerate(view) if i == 0 or view[i - 1] != w] == as_lists(words_of(20))
        assert len(view) == 20 + len(at)


def test_insertions_stand_behind_the_selected_words() -> None:
    view = insert_after(words_of(3), np.array([0, 2]), [np.array([7]), np.array([8, 9])])
    assert as_lists(view) == [[1000], [7], [1010, 1011], [1020, 1021, 1022], [8, 9]]


def test_truncation_keeps_the_end_as_the_tokenizer_does(sentence, tokenizer) -> None:
    ids, _ = sentence(TEXT)
    for length in (3, 8, len(ids), 99):
        expected = tokenizer(TEXT, truncation=True, max_length=length)["input_ids"]
        assert truncate(ids, length).tolist() == expected


def test_stop_words_are_distinct_and_tokenised_as_in_running_text(tokenizer) -> None:
    assert len(set(STOP_WORDS)) == len(STOP_WORDS)
    assert all(word == word.lower().strip() for word in STOP_WORDS)
    for word, ids in zip(STOP_WORDS, stop_word_ids(tokenizer), strict=True):
        assert [tokenizer.cls_token_id, *ids, tokenizer.sep_token_id] == tokenizer(word)["input_ids"]
