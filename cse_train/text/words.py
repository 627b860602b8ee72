"""Edits of a sentence word by word, as SimCSE and ESimCSE do them to the text before it is tokenised.

A word is what stands between blanks, its punctuation included. WordPiece tokenises words one by one, so editing whole
words here gives the ids of the edited text exactly; byte-level tokenizers differ in one thing, the first word of a
sentence keeps the form without a blank before it wherever it goes, and so does a later word that comes first.

Rules where the sources are silent: the number of words taken out is round(rate * words), halves up, and one word always
stays, so a sentence of one word is never changed by cropping or deletion; a sentence of no words by nothing at all.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

WORD_RULES = ("paper", "released")
"""Rules for the number of repeated or inserted tokens: the paper's equations, or ESimCSE's released code."""

Words = list[np.ndarray]
"""A sentence as the sub-word ids of each word, without the sentence's special tokens."""


def split_words(ids: np.ndarray, word_starts: np.ndarray) -> Words:
    """Splits ids [L], with a special token at both ends, into words; `word_starts` [L] as in `TokenColumn`."""
    if len(ids) <= 2:
        return []
    begins = np.flatnonzero(word_starts[1:-1]) + 1
    bounds = [1, *begins[1:].tolist(), len(ids) - 1]
    return [ids[a:b] for a, b in pairwise(bounds)]


def join_words(ids: np.ndarray, words: Words) -> np.ndarray:
    """Joins words to ids, between the special tokens at both ends of `ids`."""
    return np.concatenate([ids[:1], *words, ids[-1:]])


def truncate(ids: np.ndarray, length: int) -> np.ndarray:
    """Returns at most `length` ids, the last of them kept last, as tokenizers truncate."""
    return ids if len(ids) <= length else np.append(ids[: length - 1], ids[-1])


def count_taken_out(words: int, rate: float) -> int:
    """Returns the number of words that cropping or deletion takes out of a sentence of `words` words."""
    # Half up, where round() would go to the even number.
    return max(0, min(words - 1, int(rate * words + 0.5)))


def crop(words: Words, rate: float, rng: np.random.Generator) -> Words:
    """Returns a contiguous span without `rate` of the words, its place uniform ("crop k%" keeps 100 - k%)."""
    out = count_taken_out(len(words), rate)
    first = int(rng.integers(0, out + 1))
    return words[first : first + len(words) - out]


def delete_words(words: Words, rate: float, rng: np.random.Generator) -> Words:
    """Deletes `rate` of the words, drawn uniformly ("word deletion k%")."""
    return _take_out(words, count_taken_out(len(words), rate), rng)


def delete_one(words: Words, rng: np.random.Generator) -> Words:
    """Deletes one word, drawn uniformly ("delete one word"); a sentence of one word stays as it is."""
    return _take_out(words, min(1, max(0, len(words) - 1)), rng)


def replace_one(
    words: Words, alternatives: Callable[[np.ndarray], Sequence[np.ndarray]], rng: np.random.Generator
) -> Words:
    """Replaces one word by a random one of its alternatives; the word is drawn among those that have any."""
    for at in rng.permutation(len(words)).tolist():
        if others := alternatives(words[at]):
            return [*words[:at], others[int(rng.integers(len(others)))], *words[at + 1 :]]
    return words


def select_positions(words: int, rate: float, rng: np.random.Generator, rule: str = "paper") -> np.ndarray:
    """Draws the positions of the words to lengthen a sentence at, sorted, without replacement. `rate` 0 is off.

    paper (ESimCSE eq. 3-4 with words for sub-words): U{0 .. max(2, int(rate * N))} of the N words, at most N. released
    (ESimCSE train.py, dup_type == "word"): U{0 .. min(10, N, max(2, int(rate * N))) - 1} of all but the last.
    """
    assert rule in WORD_RULES, rule
    most = max(2, int(rate * words))
    bound = most if rule == "paper" else min(10, words, most) - 1
    if rate == 0 or words == 0 or bound < 1:
        return np.empty(0, dtype=np.int64)
    choices = words if rule == "paper" else words - 1
    return np.sort(rng.choice(choices, min(int(rng.integers(0, bound + 1)), choices), replace=False))


def repeat_words(words: Words, at: np.ndarray) -> Words:
    """Doubles the words at the positions `at`: "microbiology microbiology" (ESimCSE 5.2)."""
    return insert_after(words, at, [words[i] for i in at])


def insert_after(words: Words, at: np.ndarray, inserted: Sequence[np.ndarray]) -> Words:
    """Inserts the pieces `inserted[k]` behind the word `at[k]`; `at` is sorted."""
    extras = dict(zip(at.tolist(), inserted, strict=True))
    return [word for i, pieces in enumerate(words) for word in ([pieces, extras[i]] if i in extras else [pieces])]


def _take_out(words: Words, out: int, rng: np.random.Generator) -> Words:
    deleted = set(rng.choice(len(words), out, replace=False).tolist()) if out else set()
    return [word for i, word in enumerate(words) if i not in deleted]


STOP_WORDS = (
    "a an the and or but if as of at by for in into on to from with about over under then than so "
    "this that these those it its he she they we you i his her their our your is are was were be been "
    "has have had do does did will would can could should may not no only also very just there here"
).split()


def stop_word_ids(tokenizer: Any) -> list[np.ndarray]:
    """Returns the sub-word ids of each stop word, as they are after a blank."""
    backend = tokenizer.backend_tokenizer
    return [np.array(backend.encode(f" {word}", add_special_tokens=False).ids) for word in STOP_WORDS]
