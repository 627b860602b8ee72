"""Second views of sentences: token ids edited as in the augmentation tables of SimCSE and ESimCSE."""

from dataclasses import dataclass

import numpy as np

from cse_train.text.masking import BLANK, blank_tokens
from cse_train.text.synonyms import Synonyms
from cse_train.text.tokens import TokenColumn
from cse_train.text.words import (
    WORD_RULES,
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

WORD_EDITS = ("crop", "word_deletion", "delete_one_word", "synonym")
"""Kinds of `Augment` that edit whole words; like the text itself, they come before truncation."""
WORD_EXTENSIONS = ("word", "stop_word", "mask", "masked_prediction")
"""Kinds of `Extend` that insert after whole words; they come before truncation."""
MASK_EXTENSIONS = ("mask", "masked_prediction")
"""Kinds of `Extend` that insert [MASK], or the token that a generator writes in place of [MASK]."""
WORDS_KEPT = 4
"""Multiple of `train.max_seq_length` to which a text is cut first when an edit comes before truncation."""


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
        return truncate(join_words(ids, self._edit_words(row_words(column, row), rng)), self.max_length)

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
        words = row_words(column, row)
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


def row_words(column: TokenColumn, row: int) -> Words:
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
