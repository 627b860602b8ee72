"""Interface of every model that embeds text."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cse_train.fields import ConfigError

MAX_LENGTH = 512
"""Tokens kept of a text where neither the caller nor the model sets a limit."""


@dataclass(frozen=True)
class TextModel(ABC):
    """Base class of models that embed sentences, whatever library or training made them."""

    name: str
    """Path or name by which the user gave the model."""
    pooler: str
    """Name of the pooling that turns token vectors into one vector."""
    max_length: int
    """Tokens kept of a text, special tokens included (fewer where the position embeddings end)."""
    content_hash: str
    """Hash of the model's weights, by which equal models are recognised."""
    prompts: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    """Name -> text of the prompts that come with the model."""
    prompt: str = field(default="", kw_only=True)
    """Prompt in front of every text, unless a call of `embed` gives another."""

    @abstractmethod
    def embed(self, texts: Sequence[str], prompt: str | None = None) -> np.ndarray:
        """Returns float32 [N, D] in the order given; an empty text is embedded as its special tokens.

        `prompt` replaces the model's own prompt in front of every text. Raises ConfigError for no texts, and NotFinite.
        """


def require_texts(texts: Sequence[str]) -> None:
    """Raises ConfigError for an empty list of texts."""
    if not texts:
        raise ConfigError(["no texts: texts=0; give at least one sentence"])
