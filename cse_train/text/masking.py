"""Masking for masked-LM losses, and the edits that the conditional discriminator of DiffCSE must detect (section 5).

Shape suffix: L tokens of an edited sentence, special tokens at both ends.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cse_train.fields import ConfigError


def mask_tokens(
    ids: np.ndarray, maskable: np.ndarray, *, ratio: float, mask_id: int, vocab_size: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Chooses each maskable position with probability `ratio`; of these 80% become [MASK], 10% a random id, 10% stay.

    ids: int [T]; maskable: bool [T], False at special tokens and padding. Returns (masked ids [T], chosen bool [T]).
    Source: BERT; SimCSE train.py:498-530, DiffCSE mask_tokens. Raises ValueError unless 0 < ratio < 1.
    """
    if not 0 < ratio < 1:
        raise ValueError(f"masking: ratio={ratio} must lie strictly between 0 and 1")
    chosen = maskable & (rng.random(len(ids)) < ratio)
    action = rng.random(len(ids))
    masked = np.where(chosen & (action < 0.8), mask_id, ids)
    at_random = chosen & (action >= 0.9)
    masked[at_random] = rng.integers(0, vocab_size, int(at_random.sum()))
    return masked, chosen


def require_mask(tokenizer: Any, setting: str) -> int:
    """Returns the id of a tokenizer's [MASK], which `setting` (name=value) needs; ConfigError where there is none."""
    if tokenizer.mask_token_id is None:
        raise no_mask(setting)
    return int(tokenizer.mask_token_id)


def no_mask(setting: str) -> ConfigError:
    """Returns the ConfigError for a tokenizer without [MASK]; `setting` (name=value) is what needs it."""
    line = f"no mask token: {setting} writes it into texts, and the tokenizer of train.encoder has none"
    return ConfigError([f"{line}; choose an encoder that was trained with one, or another setting"])


BLANK = -1
"""Id at positions that a masked-LM generator fills in later; never an id of a tokenizer."""


def blank_tokens(ids: np.ndarray, maskable: np.ndarray, rate: float, rng: np.random.Generator) -> np.ndarray:
    """Returns `ids` with BLANK at each maskable position with probability `rate`. ids: int [L]; maskable: bool [L]."""
    return np.where(maskable & (rng.random(len(ids)) < rate), BLANK, ids)


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
