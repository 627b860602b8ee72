"""Dynamic masking for masked-LM losses: the choice of positions, and the ids that replace the tokens there."""

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
