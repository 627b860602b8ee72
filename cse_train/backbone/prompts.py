"""Prompts of a sentence-transformers folder: words that its encoder was trained to read in front of a text."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cse_train.backbone.config_file import REMEDY
from cse_train.fields import ConfigError, nearest
from cse_train.reading import reading

PROMPTS_FILE = "config_sentence_transformers.json"
POOLING_FILES = "*Pooling*/config.json"
NO_PROMPT = "none"
"""Name that asks for no prompt."""


@dataclass(frozen=True)
class Prompts:
    """Prompts of an encoder's folder; all fields are empty for a folder without any."""

    texts: Mapping[str, str] = field(default_factory=dict)
    """Name -> text of the prompt, which may be empty."""
    default: str | None = None
    averaged: bool = True
    """True if a mean over tokens counts the prompt's tokens (sentence-transformers' `include_prompt`)."""

    def text(self, name: str | None, setting: str, encoder: str) -> str:
        """Returns the text of a prompt by name; None takes the folder's default, `NO_PROMPT` takes none.

        Raises ConfigError for a prompt that the folder does not have; `setting` and `encoder` are the names in its
        message.
        """
        if name is None:
            return self.texts.get(self.default or "", "")
        if name in self.texts or name == NO_PROMPT:
            return self.texts.get(name, "")
        hint = nearest(name, [*self.texts, NO_PROMPT]) if self.texts else "it has none; leave it out"
        raise ConfigError([f"unknown prompt: {setting}={name} of {encoder}; {hint}"])

    def unused(self, text: str, setting: str, encoder: str) -> str | None:
        """Returns a warning if a folder has prompts, but none is in use and none is its default; else None."""
        names = ", ".join(name for name, words in self.texts.items() if words)
        if text or not names or self.default in self.texts:
            return None
        return f"no prompt is used: {encoder} has {names} and no default; {setting}=NAME takes one, none is without"


def read_prompts(folder: Path) -> Prompts:
    """Reads the prompts of an encoder's folder. Raises ConfigError, one line, for a damaged file."""
    if not (folder / PROMPTS_FILE).is_file():
        return Prompts()
    with reading("unreadable prompts", folder / PROMPTS_FILE, REMEDY):
        settings = json.loads((folder / PROMPTS_FILE).read_text(encoding="utf8"))
        texts = {str(name): str(text) for name, text in (settings.get("prompts") or {}).items() if text is not None}
        default = settings.get("default_prompt_name")
        poolings = [json.loads(file.read_text(encoding="utf8")) for file in sorted(folder.glob(POOLING_FILES))]
        averaged = all(pooling.get("include_prompt", True) for pooling in poolings)
    return Prompts(texts, default if isinstance(default, str) else None, averaged)


def prompt_tokens(tokenizer: Any, text: str) -> int:
    """Returns the number of tokens that a prompt puts in front of a text, with a special token at its front.

    sentence-transformers counts the same.
    """
    ids = tokenizer(text)["input_ids"] if text else []
    return len(ids) - bool(ids and ids[-1] in tokenizer.all_special_ids)
