"""What every model that embeds text offers, whoever made it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cse_train.fields import ConfigError

MAX_LENGTH = 512
"""Tokens kept of a text where neither the caller nor the model says otherwise."""


@dataclass(frozen=True)
class TextModel(ABC):
    """Something that embeds sentences."""

    name: str
    """What a person called it."""
    pooler: str
    """How one vector comes out of the token vectors."""
    max_length: int
    """Tokens kept of a text, special tokens included (fewer where the position embeddings end)."""
    content_hash: str
    """Hash of the weights."""
    prompts: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    """Name -> text of those that the model was made with."""
    prompt: str = field(default="", kw_only=True)
    """What stands in front of every text."""

    @abstractmethod
    def embed(self, texts: Sequence[str], prompt: str | None = None) -> np.ndarray:
        """float32 [N, D] in the order given; an empty text is its special tokens. NotFinite, ConfigError for none.

        `prompt` stands in front of every text in the place of the model's own.
        """


def require_texts(texts: Sequence[str]) -> None:
    """Raise ConfigError where there is nothing to embed."""
    if not texts:
        raise ConfigError(["no texts: texts=0; give at least one sentence"])
