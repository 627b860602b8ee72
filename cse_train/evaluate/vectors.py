"""Models that embed text, as suites see them, and graded sets as unit vectors, one for every distinct text.

Shape suffixes: U distinct texts, P pairs, D embedding size.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from cse_train.evaluate.correlation import find_unranked, round_cosines, spearman
from cse_train.evaluate.pairs import Pairs
from cse_train.fields import ConfigError
from cse_train.results import Protocol

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


Embed = Callable[[Sequence[str]], np.ndarray]
"""Function from texts to their embeddings [texts, D]."""


def unit(embeddings_ND: np.ndarray) -> np.ndarray:
    """Scales rows to length 1 in fp64; a zero row stays zero, so that its cosines are 0 as in SentEval."""
    rows_ND = np.asarray(embeddings_ND, dtype=np.float64)
    norms = np.linalg.norm(rows_ND, axis=1, keepdims=True)
    scaled: np.ndarray = rows_ND / np.where(norms == 0, 1.0, norms)
    return scaled


@dataclass(frozen=True)
class EmbeddedPairs:
    """A graded set with its embeddings: pair p joins the distinct texts `left_rows[p]` and `right_rows[p]`."""

    pairs: Pairs
    texts: tuple[str, ...]
    """The U distinct texts, in order of first appearance (left column first)."""
    unit_UD: np.ndarray
    """float64: embeddings of the distinct texts, rows of length 1."""
    left_rows: np.ndarray
    """int64 [P]: row of each pair's left text in `texts`."""
    right_rows: np.ndarray
    """int64 [P]: row of each pair's right text in `texts`."""

    @cached_property
    def cosines(self) -> np.ndarray:
        """float64 [P]: cosine of each pair, rounded for ranking."""
        return round_cosines(np.einsum("pd,pd->p", self.unit_UD[self.left_rows], self.unit_UD[self.right_rows]))

    @property
    def spearman(self) -> float:
        """Spearman correlation of cosines and grades over all pairs, times 100; NaN where there is none."""
        return spearman(self.cosines, self.pairs.gold)

    @property
    def value(self) -> float:
        """Score of the set as a dev set: its Spearman correlation."""
        return self.spearman

    @property
    def unscored(self) -> str:
        """Reason why the set has no score; empty where it has one."""
        return find_unranked(self.cosines, self.pairs.gold)

    @property
    def sentences(self) -> np.ndarray:
        """int64 [2 P]: row in `texts` of every sentence of the set, left column first."""
        return np.concatenate([self.left_rows, self.right_rows])


def embed_pairs(embed: Embed, pairs: Pairs) -> EmbeddedPairs:
    """Embeds each distinct text of a graded set once."""
    texts = tuple(dict.fromkeys((*pairs.left, *pairs.right)))
    row_of = {text: row for row, text in enumerate(texts)}
    left_rows, right_rows = (np.array([row_of[text] for text in side]) for side in (pairs.left, pairs.right))
    return EmbeddedPairs(pairs, texts, unit(embed(texts)), left_rows, right_rows)


def protocol_of(
    model: TextModel, suite: str, split: str, data_hash: str, *, aggregation: str = "none", rule: str = ""
) -> Protocol:
    """Returns the protocol of a model's score on a suite's, set's or task's data; the prompt is filled in later."""
    return Protocol(
        suite=suite,
        pooler=model.pooler,
        aggregation=aggregation,
        split=split,
        max_length=model.max_length,
        rule=rule,
        data_hash=data_hash,
    )


def sts_protocol(pairs: Pairs, model: TextModel, *, aggregation: str = "all", rule: str = "") -> Protocol:
    """Returns the protocol of a model's cosines on a graded set."""
    return protocol_of(model, pairs.name, pairs.split, pairs.content_hash, aggregation=aggregation, rule=rule)
