"""Manual prompts: templates with a place for a sentence and a [MASK] whose vector is its embedding (PromptBERT 4)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cse_train.fields import ConfigError
from cse_train.text.masking import require_mask

TEMPLATE_SENTENCE, TEMPLATE_MASK = "[X]", "[MASK]"
"""Marks in a template's text for the places of the sentence and of the mask token."""


@dataclass(frozen=True)
class Template:
    """A prompt template as ids before and after the sentence, with the special tokens of both ends."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    mask_id: int

    @property
    def length(self) -> int:
        """Number of tokens that the template adds to a sentence."""
        return len(self.before) + len(self.after)

    def around(self, ids: np.ndarray, most: int | None = None) -> np.ndarray:
        """Returns the template filled with the ids of a sentence, of whose sub-words it takes at most `most`."""
        return np.concatenate([self.before, ids[1:-1][:most], self.after]).astype(np.int64)

    def mask_at(self, lengths: Any) -> Any:
        """Returns the position of [MASK] in filled templates that are `lengths` tokens long."""
        if self.mask_id in self.before:
            # Times 0, so that the result has the shape and the device of `lengths`.
            return lengths * 0 + self.before.index(self.mask_id)
        return lengths - len(self.after) + self.after.index(self.mask_id)


def read_template(setting: str, text: str, tokenizer: Any) -> Template:
    """Reads a template from text, its mask written [MASK] for all tokenizers; ConfigError unless both marks occur once.

    Blanks before the sentence go: they would be a token of their own for RoBERTa (released train.py:626-628). `setting`
    is the option that the error names.
    """
    if text.count(TEMPLATE_SENTENCE) != 1 or text.count(TEMPLATE_MASK) != 1:
        raise ConfigError([f"wrong template: {setting}={text}; give one {TEMPLATE_SENTENCE} and one {TEMPLATE_MASK}"])
    mask_id = require_mask(tokenizer, setting)
    front, behind = (part.replace(TEMPLATE_MASK, tokenizer.mask_token) for part in text.split(TEMPLATE_SENTENCE))
    before, after = (tokenizer(part, add_special_tokens=False)["input_ids"] for part in (front.strip(), behind))
    first, last = tokenizer("", add_special_tokens=True)["input_ids"]
    return Template((first, *before), (*after, last), mask_id)
