"""What a method is: one class, `Method`, beside its settings (`Options`), and what it passes on.

A module of this folder holds one class of `Method`; its `Config` lies in `options`, in a module of the same name that
needs no torch, so that a plan is quick.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from cse_train.backbone.backbone import Backbone
from cse_train.distributed import copy_to
from cse_train.encoder.packing import Packed
from cse_train.fields import ConfigError
from cse_train.plugins.options import Options, misspelt
from cse_train.random_streams import Place
from cse_train.text.tokens import TokenStore


@dataclass(frozen=True)
class Batch:
    """One rank's share of a step: named packed inputs and named tensors."""

    inputs: Mapping[str, Packed]
    examples: int
    tensors: Mapping[str, Tensor] = field(default_factory=dict)

    def to(self, device: torch.device | str) -> "Batch":
        inputs = {name: packed.to(device) for name, packed in self.inputs.items()}
        return Batch(inputs, self.examples, {name: copy_to(t, device) for name, t in self.tensors.items()})


@dataclass(frozen=True)
class StepOutput:
    """`loss`: scalar to minimise, already right under DDP's gradient average. `metrics`: detached scalars to log."""

    loss: Tensor
    metrics: Mapping[str, Tensor]


RngOf = Callable[[int], np.random.Generator]
"""Corpus row -> its own augmentation generator for this epoch: the same at every world size."""


Encode = Callable[[Packed], Tensor]
"""A pack -> its embeddings [N, D] in batch order."""


@dataclass(frozen=True)
class Share:
    """What one rank collates in a step."""

    store: TokenStore
    rows: np.ndarray
    """int64 [B]: this rank's corpus rows."""
    batch_rows: np.ndarray
    """int64 [G]: the corpus rows of all ranks, this rank's among them."""
    rng_of: RngOf
    place: Place | None = None

    @property
    def texts(self) -> list[np.ndarray]:
        """The ids of every text of the rows, column after column."""
        return [column.row(i) for column in self.store.arrays.values() for i in self.rows.tolist()]


Collate = Callable[[Share], Batch]
"""A rank's share of a step -> what it is trained on; it runs without gradients."""

C = TypeVar("C", bound=Options)


@dataclass(frozen=True)
class EmbeddingParts:
    """What a method embeds with, where it has these: they are scored with another pooler, and exported."""

    encoder: nn.Module | None
    prompted: nn.Module | None
    """An encoder behind trained prompts, in the encoder's place."""
    pooler: nn.Module | None
    after: nn.Module | None
    """What follows the pooling."""


class Method(nn.Module, Generic[C]):
    """A method: what it reads, what it makes of a batch, and how it embeds.

    Hooks that take `config` are asked before there is a module; all have a default but `make_collate`, `forward` and
    `encode`. The module is made by `__init__(config, backbone, training)`. A public name that nearly is a hook's is
    refused.

    Where an embedding is an encoder's, pooled by a `SentencePooler`, these are the attributes `encoder` and `pooler`:
    then `cse export` writes it, and another pooler may be asked for at evaluation.

    A method may be fitted instead of trained: no parameter requires a gradient, `forward` takes a batch's statistics
    into buffers, the same ones on every rank, and the loss is only reported. `encode` must then work from the buffers
    of any step on; before the first one it may give the encoder's own embeddings.
    """

    TRAINING_ONLY: ClassVar[tuple[str, ...]] = ()
    """Prefixes of the state that `encode` does not need, which may be left out where `training` is False."""
    width: int | None = None
    """Numbers of an embedding where that is not the encoder's width."""

    @classmethod
    def columns(cls, config: C) -> tuple[str, ...]:
        """The text columns that it needs, () where every text of a row counts: those of `text_columns` of the settings,
        or the sentences."""
        said = config.text_columns()
        return ("text",) if said is None else said

    @classmethod
    def lower_case(cls, config: C) -> bool:
        """Whether texts are lower-cased before they are tokenised."""
        return False

    @classmethod
    def tokens_kept(cls, config: C, max_seq_length: int) -> int | None:
        """Tokens of a text in the store; None for all."""
        return max_seq_length

    @classmethod
    def usable_rows(cls, config: C, store: TokenStore) -> np.ndarray:
        """int64: the corpus rows that may be drawn."""
        return np.arange(store.rows)

    @classmethod
    def prepare(cls, config: C, store: TokenStore, backbone: Backbone, cache: Path | None) -> TokenStore:
        """A pass over the corpus before the first step; gives the store to draw from, raises ConfigError."""
        return store

    @classmethod
    def corpus_alone(cls, config: C) -> bool:
        """Whether trained encoders read the ids of the corpus alone, special ones aside.

        Nothing else reads their word embeddings then.
        """
        return False

    @classmethod
    def make_collate(cls, config: C, tokenizer: Any, max_seq_length: int) -> Collate:
        """What makes a rank's batch from its share of the corpus."""
        raise NotImplementedError(f"{cls.__name__} has no make_collate; write one")

    @classmethod
    def build(cls, config: C, backbone: Backbone, training: bool = True) -> "Method[C]":
        """The module over an encoder; ConfigError for what does not go together."""
        return cls(config, backbone, training)

    def forward(self, batch: Batch) -> StepOutput:
        """One step."""
        raise NotImplementedError(f"{type(self).__name__} has no forward; write one")

    def encode(self, packed: Packed) -> Tensor:
        """Test-time embeddings [N, D] in batch order; the caller sets eval mode."""
        raise NotImplementedError(f"{type(self).__name__} has no encode; write one")

    def dev_encodes(self) -> list[Encode]:
        """What embeds where the dev set picks a checkpoint; of several the first of the best counts."""
        return [self.encode]

    def keep(self, place: int) -> None:
        """Told, before `kept_state`, which of several `dev_encodes` was the best."""

    def kept_state(self) -> dict[str, Any]:
        """The state that a checkpoint for `encode` holds."""
        return self.state_dict()

    def text_of(self, text: str) -> str:
        """What is read in a text's place at test time."""
        return text

    def embedding_parts(self) -> EmbeddingParts:
        """The attributes of these names."""
        return EmbeddingParts(*(getattr(self, name, None) for name in EmbeddingParts.__dataclass_fields__))

    def __init_subclass__(cls) -> None:
        """Raise ConfigError for a misspelt hook."""
        super().__init_subclass__()
        if problems := misspelt(cls, METHOD_HOOKS, dir(nn.Module)):
            raise ConfigError(problems)


METHOD_HOOKS = tuple(name for name in vars(Method) if not name.startswith("_"))
"""What may be asked of a method."""
