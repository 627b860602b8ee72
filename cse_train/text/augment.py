"""Second views of sentences: token ids edited as in the augmentation tables of SimCSE and ESimCSE.

A word is what stands between blanks, its punctuation included. WordPiece tokenises words one by one, so editing whole
words here gives the ids of the edited text exactly; byte-level tokenizers differ in one thing, the first word of a
sentence keeps the form without a blank before it wherever it goes, and so does a later word that comes first.

Rules where the sources are silent: the number of words taken out is round(rate * words), halves up, and one word always
stays, so a sentence of one word is never changed by cropping or deletion; a sentence of no words by nothing at all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from cse_train.text.masking import BLANK, blank_tokens
from cse_train.text.synonyms import Synonyms
from cse_train.text.tokens import TokenColumn

WORD_EDITS = ("crop", "word_deletion", "delete_one_word", "synonym")
"""Kinds of `Augment` that edit whole words; like the text itself, they come before truncation."""
WORD_EXTENSIONS = ("word", "stop_word", "mask", "masked_prediction")
"""Kinds of `Extend` that insert after whole words; they come before truncation."""
MASK_EXTENSIONS = ("mask", "masked_prediction")
"""Kinds of `Extend` that insert [MASK], or the token that a generator writes in place of [MASK]."""
WORDS_KEPT = 4
"""Multiple of `train.max_seq_length` to which a text is cut first when an edit comes before truncation."""
WORD_RULES = ("paper", "released")
"""Rules for the number of repeated or inserted tokens: the paper's equations, or ESimCSE's released code."""

Words = list[np.ndarray]
"""A sentence as the sub-word ids of each word, without the sentence's special tokens."""


@dataclass(frozen=True)
class Augment:
    """One of SimCSE's discrete augmentations (table "data augmentation"; not in the released code, SimCSE issue 231).

    crop, word_deletion: `rate` of the words; delete_one_word; synonym: one word; mlm: each sub-word is BLANK with
    probability `rate`. Cropping and deletion leave a sentence of one word as it is.
    """

    kind: str
    rate: float
    max_length: int
    special_ids: tuple[int, ...] = ()
    synonyms: Synonyms | None = None

    def __call__(self, column: TokenColumn, row: int, rng: np.random.Generator) -> np.ndarray:
        """Returns the second view of row `row` of a token column: int ids, at most `max_length` of them."""
        ids = column.row(row)
        if self.kind == "mlm":
            return blank_tokens(ids, ~np.isin(ids, self.special_ids), self.rate, rng)
        return truncate(join_words(ids, self._edit_words(_row_words(column, row), rng)), self.max_length)

    def _edit_words(self, words: Words, rng: np.random.Generator) -> Words:
        if self.kind == "crop":
            return crop(words, self.rate, rng)
        if self.kind == "word_deletion":
            return delete_words(words, self.rate, rng)
        if self.kind == "delete_one_word":
            return delete_one(words, rng)
        assert self.kind == "synonym" and self.synonyms is not None, self.kind
        return replace_one(words, self.synonyms, rng)


@dataclass(frozen=True)
class Extend:
    """One of ESimCSE's ways to make a sentence longer (table 5): repeat tokens, or insert some after chosen words.

    subword, the paper's choice, doubles sub-words after truncation, so that a view may be longer than `max_length`
    (ESimCSE train.py, dup_type == "bpe"); the others edit whole words before truncation (dup_type == "word").
    """

    kind: str
    rate: float
    rule: str
    max_length: int
    mask_id: int | None
    """Id of the tokenizer's [MASK]; needed only for the kind "mask"."""
    stop_words: tuple[np.ndarray, ...] = ()

    def __call__(self, column: TokenColumn, row: int, rng: np.random.Generator) -> np.ndarray:
        """Returns the second view of row `row` of a token column as int ids; BLANK where a masked prediction goes."""
        ids = column.row(row)
        if self.kind == "subword":
            return repeat_subwords(ids, self.rate, rng, self.rule)
        words = _row_words(column, row)
        at = select_positions(len(words), self.rate, rng, self.rule)
        if self.kind == "word":
            longer = repeat_words(words, at)
        elif self.kind == "stop_word":
            drawn = rng.integers(len(self.stop_words), size=len(at))
            longer = insert_after(words, at, [self.stop_words[i] for i in drawn])
        else:
            assert self.kind in MASK_EXTENSIONS, self.kind
            inserted = np.array([BLANK if self.kind == "masked_prediction" else self.mask_id])
            longer = insert_after(words, at, [inserted] * len(at))
        return truncate(join_words(ids, longer), self.max_length)


def _row_words(column: TokenColumn, row: int) -> Words:
    """Returns the words of row `row` of a token column, each as its sub-word ids."""
    first = column.starts[row]
    return split_words(column.row(row), column.word_starts[first : first + column.lengths[row]])


def repeat_subwords(ids: np.ndarray, rate: float, rng: np.random.Generator, rule: str = "paper") -> np.ndarray:
    """Doubles some sub-words of a sentence in place, [CLS] and [SEP] never. ids: int [L], special tokens at both ends.

    paper (ESimCSE eq. 3-4): dup_len ~ U{0 .. max(2, int(rate * N))} of the N = L - 2 sub-words, at most N. released
    (ESimCSE train.py:498-531): dup_len ~ U{0 .. min(10, int(rate * L)) - 1}, so that at rate 0.08 a sentence of fewer
    than 24 tokens never changes. Both draw the positions without replacement. `rate` 0 is off.
    """
    assert rule in WORD_RULES, rule
    subwords = len(ids) - 2
    if rate == 0 or subwords < 1:
        return ids
    bound = max(2, int(rate * subwords)) if rule == "paper" else min(10, int(rate * len(ids))) - 1
    if bound < 1:
        return ids
    dup_len = min(int(rng.integers(0, bound + 1)), subwords)
    times = np.ones(len(ids), dtype=np.int64)
    times[1 + rng.choice(subwords, dup_len, replace=False)] = 2
    return np.repeat(ids, times)


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


def _count_taken_out(words: int, rate: float) -> int:
    """Returns the number of words that cropping or deletion takes out of a sentence of `words` words."""
    # Half up, where round() would go to the even number.
    return max(0, min(words - 1, int(rate * words + 0.5)))


def crop(words: Words, rate: float, rng: np.random.Generator) -> Words:
    """Returns a contiguous span without `rate` of the words, its place uniform ("crop k%" keeps 100 - k%)."""
    out = _count_taken_out(len(words), rate)
    first = int(rng.integers(0, out + 1))
    return words[first : first + len(words) - out]


def delete_words(words: Words, rate: float, rng: np.random.Generator) -> Words:
    """Deletes `rate` of the words, drawn uniformly ("word deletion k%")."""
    return _take_out(words, _count_taken_out(len(words), rate), rng)


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
