"""Edits of a sentence that DiffCSE's conditional discriminator must detect: replace, insert, delete (section 5).

Shape suffix: L tokens of the edited sentence, special tokens at both ends.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cse_train.text.masking import mask_tokens, require_mask

OPERATORS = ("replace", "insert", "delete", "all")
"""Edits by name. replace: mask sub-words, each with probability `ratio`; insert: add [MASK]s, `ratio` of the sub-words,
at random places; delete: remove `ratio` of the sub-words; all: delete, then insert, then replace, each at `ratio`."""


@dataclass(frozen=True)
class Vocabulary:
    """Ids of a tokenizer that an edit needs: [MASK], the special tokens, and the number of all tokens."""

    mask_id: int
    special_ids: tuple[int, ...]
    size: int

    @classmethod
    def of(cls, tokenizer: Any) -> "Vocabulary":
        """Reads a tokenizer's ids; ConfigError for a tokenizer without [MASK]."""
        return cls(
            require_mask(tokenizer, "an edit (method.operator)"), tuple(tokenizer.all_special_ids), len(tokenizer)
        )


@dataclass(frozen=True)
class Edit:
    """An edited sentence before a generator has filled its [MASK]s."""

    masked_L: np.ndarray
    """Ids that the generator reads, with [MASK] at the positions to fill."""
    source_L: np.ndarray
    """Ids with which the filled tokens are compared; [MASK] at inserted positions."""
    edited_L: np.ndarray
    """Bool: true, whatever the generator fills in, at inserted tokens and where the preceding token was deleted."""
    chosen_L: np.ndarray
    """Bool: true where masking chose the position, also where it kept the token."""


def insertions(subwords: np.ndarray, ratio: float) -> np.ndarray:
    """Returns the number of tokens to insert: `ratio` of the sub-words, rounded, at least 1; 0 in an empty sentence."""
    return np.asarray(np.minimum(subwords, np.maximum(1, np.rint(ratio * subwords))), np.int64)


def deletions(subwords: np.ndarray, ratio: float) -> np.ndarray:
    """Returns the number of sub-words to delete: `ratio` of them, rounded, at least 1, but never the last one left."""
    return np.asarray(np.maximum(0, np.minimum(subwords - 1, insertions(subwords, ratio))))


def count_edited(lengths: np.ndarray, operator: str, ratio: float) -> np.ndarray:
    """Returns the lengths (int64, special tokens included) that `edit` gives sentences of these lengths."""
    assert operator in OPERATORS, operator
    subwords = np.asarray(lengths, dtype=np.int64) - 2
    if operator in ("delete", "all"):
        subwords = subwords - deletions(subwords, ratio)
    if operator in ("insert", "all"):
        subwords = subwords + insertions(subwords, ratio)
    return subwords + 2


def edit(ids: np.ndarray, operator: str, ratio: float, vocabulary: Vocabulary, rng: np.random.Generator) -> Edit:
    """Edits a sentence by one of OPERATORS. ids: int [special, sub-words ..., special]; 0 < ratio < 1.

    Masking never chooses special tokens; insertion and deletion never touch the first and the last.
    """
    assert operator in OPERATORS, operator
    edited = inserted = np.zeros(len(ids), dtype=bool)
    if operator in ("delete", "all"):
        ids, edited = _delete(ids, ratio, rng)
        inserted = np.zeros(len(ids), dtype=bool)
    if operator in ("insert", "all"):
        places = rng.integers(1, len(ids), insertions(np.array(len(ids) - 2), ratio))
        ids, edited = np.insert(ids, places, vocabulary.mask_id), np.insert(edited, places, True)
        inserted = np.insert(inserted, places, True)
    masked, chosen = ids, np.zeros(len(ids), dtype=bool)
    if operator in ("replace", "all"):
        maskable = ~np.isin(ids, vocabulary.special_ids) & ~inserted
        masked, chosen = mask_tokens(
            ids, maskable, ratio=ratio, mask_id=vocabulary.mask_id, vocab_size=vocabulary.size, rng=rng
        )
    return Edit(masked, ids, edited, chosen)


def _delete(ids: np.ndarray, ratio: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Returns the ids that stay, and for each of them whether the token before it was deleted."""
    subwords = len(ids) - 2
    deleted = np.zeros(len(ids), dtype=bool)
    if count := int(deletions(np.array(subwords), ratio)):
        deleted[1 + rng.choice(subwords, count, replace=False)] = True
    return ids[~deleted], np.append(False, deleted[:-1])[~deleted]
