"""Edits of one sentence whose traces a conditional model must find: replace, insert, delete (DiffCSE section 5).

Shape suffix: L tokens of the edited sentence, special tokens at both ends.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cse_train.text.masking import mask_tokens, require_mask

OPERATORS = ("replace", "insert", "delete", "all")
"""replace: the masked sub-words, each with probability `ratio`; insert: as many [MASK]s as `ratio` of the sentence, at
random places; delete: as many sub-words; all: first delete, then insert, then replace, each at that ratio."""


@dataclass(frozen=True)
class Vocabulary:
    """The ids that an edit must know."""

    mask_id: int
    special_ids: tuple[int, ...]
    size: int

    @classmethod
    def of(cls, tokenizer: Any) -> "Vocabulary":
        """A tokenizer's."""
        return cls(
            require_mask(tokenizer, "an edit (method.operator)"), tuple(tokenizer.all_special_ids), len(tokenizer)
        )


@dataclass(frozen=True)
class Edit:
    """One edited sentence before any generator has filled it."""

    masked_L: np.ndarray
    """What the generator reads."""
    source_L: np.ndarray
    """The token that a filled one is compared with; [MASK] where one was inserted."""
    edited_L: np.ndarray
    """Bool: changed whatever the generator says: an inserted token, or one whose preceding token was deleted."""
    chosen_L: np.ndarray
    """Bool: chosen by masking, also where the token was kept."""


def insertions(subwords: np.ndarray, ratio: float) -> np.ndarray:
    """How many tokens are inserted: `ratio` of the sub-words, rounded, at least one; none into an empty sentence."""
    return np.asarray(np.minimum(subwords, np.maximum(1, np.rint(ratio * subwords))), np.int64)


def deletions(subwords: np.ndarray, ratio: float) -> np.ndarray:
    """As `insertions`, but one sub-word always stays: a sentence of one is not edited."""
    return np.asarray(np.maximum(0, np.minimum(subwords - 1, insertions(subwords, ratio))))


def count_edited(lengths: np.ndarray, operator: str, ratio: float) -> np.ndarray:
    """int64: what `edit` makes of sentences of these lengths (special tokens included), without looking at them."""
    assert operator in OPERATORS, operator
    subwords = np.asarray(lengths, dtype=np.int64) - 2
    if operator in ("delete", "all"):
        subwords = subwords - deletions(subwords, ratio)
    if operator in ("insert", "all"):
        subwords = subwords + insertions(subwords, ratio)
    return subwords + 2


def edit(ids: np.ndarray, operator: str, ratio: float, vocabulary: Vocabulary, rng: np.random.Generator) -> Edit:
    """Edit a sentence. ids: int [special, sub-words ..., special]; 0 < ratio < 1.

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
    """What stays, and whether the token before it is gone."""
    subwords = len(ids) - 2
    gone = np.zeros(len(ids), dtype=bool)
    if count := int(deletions(np.array(subwords), ratio)):
        gone[1 + rng.choice(subwords, count, replace=False)] = True
    return ids[~gone], np.append(False, gone[:-1])[~gone]
