"""What every model that embeds text offers, whoever made it."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from cse_train.fields import ConfigError

MAX_LENGTH = 512
"""Tokens kept of a text where neither the caller nor the model says otherwise."""


class TextModel(Protocol):
    """Something that embeds sentences."""

    @property
    def name(self) -> str:
        """What a person called it."""
        ...

    @property
    def pooler(self) -> str:
        """How one vector comes out of the token vectors."""
        ...

    @property
    def max_length(self) -> int:
        """Tokens kept of a text, special tokens included (fewer where the position embeddings end)."""
        ...

    @property
    def content_hash(self) -> str:
        """Hash of the weights."""
        ...

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """float32 [N, D] in the order given; an empty text is its special tokens. NotFinite, ConfigError for none."""
        ...


def require_texts(texts: Sequence[str]) -> None:
    """Raise ConfigError where there is nothing to embed."""
    if not texts:
        raise ConfigError(["no texts: texts=0; give at least one sentence"])
