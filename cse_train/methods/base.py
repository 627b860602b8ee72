"""Base class of a method, `Method`, and the types that it exchanges with the training loop.

A module of this folder holds one class of `Method`; its `Config` lies in `options`, in a module of the same name that
needs no torch, so that planning a sweep is quick.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from cse_train.distributed import copy_to, mean_over_ranks
from cse_train.encoder.backbone import Backbone
from cse_train.encoder.encoder import Encoder
from cse_train.encoder.masked_lm import MaskedLMHead
from cse_train.encoder.packing import Packed
from cse_train.fields import ConfigError
from cse_train.losses import info_nce, masked_lm
from cse_train.plugins import registry
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
    """Result of a step. `loss`: scalar to minimise, right under DDP's gradient average. `metrics`: detached scalars."""

    loss: Tensor
    metrics: Mapping[str, Tensor]


RngOf = Callable[[int], np.random.Generator]
"""Function from a corpus row to its own augmentation generator for this epoch, equal at every world size."""


Encode = Callable[[Packed], Tensor]
"""Function from a pack to its embeddings [N, D] in batch order."""


@dataclass(frozen=True)
class Share:
    """Input of the collate function: the corpus rows that one rank reads in a step."""

    store: TokenStore
    rows: np.ndarray
    """int64 [B]: numbers of the corpus rows that this rank reads."""
    batch_rows: np.ndarray
    """int64 [G]: numbers of the corpus rows that all ranks read, this rank's among them."""
    rng_of: RngOf
    place: Place | None = None

    @property
    def texts(self) -> list[np.ndarray]:
        """Token ids of every text of the rows, column after column."""
        return [column.row(i) for column in self.store.arrays.values() for i in self.rows.tolist()]


Collate = Callable[[Share], Batch]
"""Function from a rank's share of a step to its batch; it runs without gradients."""

C = TypeVar("C", bound=Options)


@dataclass(frozen=True)
class EmbeddingParts:
    """Modules with which a method embeds, each None where it has none; another pooler and an export need them."""

    encoder: nn.Module | None
    prompted: nn.Module | None
    """Encoder behind trained prompts, which replaces `encoder`."""
    pooler: nn.Module | None
    after: nn.Module | None
    """Module that follows the pooling, such as a whitening."""


class Method(nn.Module, Generic[C]):
    """Base class of a method: it reads corpus columns, computes a loss from a batch, and embeds texts.

    Hooks that take `config` are asked before there is a module; all have a default but `make_collate` and `forward`,
    and `encode` where the method has no `encoder` and `pooler`. The module is made by `__init__(config, backbone,
    training)`. A public name that nearly is a hook's is refused.

    Where an embedding is an encoder's, pooled by a `SentencePooler`, these are the attributes `encoder` and `pooler`:
    then `cse export` writes it, and another pooler may be asked for at evaluation.

    A method may be fitted instead of trained: no parameter requires a gradient, `forward` takes a batch's statistics
    into buffers, equal on every rank, and the loss is only reported. `encode` must then work from the buffers of any
    step on; before the first one it may give the encoder's own embeddings.
    """

    TRAINING_ONLY: ClassVar[tuple[str, ...]] = ()
    """Prefixes of the state that `encode` does not need, which may be left out where `training` is False."""
    width: int | None = None
    """Numbers of an embedding where they differ from the encoder's width; None where they equal it."""

    @classmethod
    def columns(cls, config: C) -> tuple[str, ...]:
        """Returns the corpus's text columns that the method needs; () where every text of a row counts.

        The default is `text_columns` of the settings, or the column of sentences where that is None.
        """
        said = config.text_columns()
        return ("text",) if said is None else said

    @classmethod
    def lower_case(cls, config: C) -> bool:
        """Returns whether texts are lower-cased before they are tokenised."""
        return False

    @classmethod
    def tokens_kept(cls, config: C, max_seq_length: int) -> int | None:
        """Returns the tokens of a text that the token store keeps; None for all."""
        return max_seq_length

    @classmethod
    def usable_rows(cls, config: C, store: TokenStore) -> np.ndarray:
        """Returns the corpus rows that may be drawn, int64."""
        return np.arange(store.rows)

    @classmethod
    def prepare(cls, config: C, store: TokenStore, backbone: Backbone, cache: Path | None) -> TokenStore:
        """Makes a pass over the corpus before the first step; returns the store to draw from, raises ConfigError."""
        return store

    @classmethod
    def corpus_alone(cls, config: C) -> bool:
        """Returns whether trained encoders read no ids but those of the corpus and special ones.

        Where they do not, no other rows of their word embeddings can have a gradient.
        """
        return False

    @classmethod
    def make_collate(cls, config: C, tokenizer: Any, max_seq_length: int) -> Collate:
        """Returns the function that makes a rank's batch from its share of the corpus."""
        raise NotImplementedError(f"{cls.__name__} has no make_collate; write one")

    @classmethod
    def build(cls, config: C, backbone: Backbone, training: bool = True) -> "Method[C]":
        """Builds the method over an encoder; ConfigError for settings that do not go together."""
        return cls(config, backbone, training)

    def forward(self, batch: Batch) -> StepOutput:
        """Computes the loss and the metrics of one training step."""
        raise NotImplementedError(f"{type(self).__name__} has no forward; write one")

    def encode(self, packed: Packed) -> Tensor:
        """Returns test-time embeddings [N, D] in batch order; the caller sets eval mode.

        The default is `pooler` over `prompted`, or else over `encoder`, where the method has these attributes.
        """
        parts = self.embedding_parts()
        encoder, pooler = parts.encoder if parts.prompted is None else parts.prompted, parts.pooler
        if encoder is None or pooler is None:
            raise NotImplementedError(f"{type(self).__name__} has no encode; write one")
        return pooler(encoder(packed, tokens=pooler.needs_tokens))[0]

    def dev_encodes(self) -> list[Encode]:
        """Returns the functions that embed for the dev score; of several the first with the best score counts."""
        return [self.encode]

    def keep(self, place: int) -> None:
        """Receives, before `kept_state`, the index of the best function of `dev_encodes`."""

    def kept_state(self) -> dict[str, object]:
        """Returns the state that a checkpoint for `encode` holds."""
        return self.state_dict()

    def text_of(self, text: str) -> str:
        """Returns the text that the model reads at test time in place of `text`."""
        return text

    def embedding_parts(self) -> EmbeddingParts:
        """Returns the method's attributes with the names of the fields of `EmbeddingParts`."""
        return EmbeddingParts(*(getattr(self, name, None) for name in EmbeddingParts.__dataclass_fields__))

    def __init_subclass__(cls) -> None:
        """Checks a subclass when it is defined: ConfigError for a misspelt hook."""
        super().__init_subclass__()
        if problems := misspelt(cls, METHOD_HOOKS, dir(nn.Module)):
            raise ConfigError(problems)


METHOD_HOOKS = tuple(name for name in vars(Method) if not name.startswith("_"))
"""Names of the hooks of `Method` that a subclass may define."""


def contrast(views: Sequence[Tensor], config: Any) -> Tensor:
    """Returns InfoNCE of anchors, positives and, where there is a third view, hard negatives, each [G, H].

    `config` has `temperature` and `hard_negative_weight`.
    """
    hard_GH = views[2] if len(views) == 3 else None
    weight, tau = config.hard_negative_weight, config.temperature
    return info_nce(views[0], views[1], hard_negatives_BD=hard_GH, hard_negative_weight=weight, temperature=tau)


def predict_masked(
    head: MaskedLMHead | None, encoder: nn.Module, states_TH: Tensor, at_M: Tensor, target_M: Tensor
) -> tuple[Tensor, Tensor]:
    """Returns the masked-LM loss over all ranks' masked slots, and this rank's logits [M, vocab_size].

    `states_TH` are an encoder's last states, `at_M` the slots to predict and `target_M` their true ids.
    """
    assert head is not None and isinstance(encoder, Encoder)
    logits_MV = head(states_TH[at_M], encoder.word.weight)
    return mean_over_ranks(*masked_lm(logits_MV, target_M)), logits_MV


def load_method(name: str) -> type[Method[Any]]:
    """Returns a method's class. KeyError for an unknown name; ConfigError for a failed import, or no single class."""
    plugin = registry.require("method", name)
    return _class_of(registry.load(plugin), name, str(plugin))


@functools.cache
def _class_of(module: ModuleType, name: str, where: str) -> type[Method[Any]]:
    """Returns the one subclass of `Method` that a module defines and no other class there inherits from."""
    classes = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Method)]
    classes = [cls for cls in classes if cls.__module__ == module.__name__]
    last = [cls for cls in classes if not any(cls in other.__mro__[1:] for other in classes)]
    if len(last) != 1:
        named = ", ".join(cls.__name__ for cls in last) or "none"
        raise ConfigError([f"no one method: method={name} has of the classes of Method {named} in {where}; write one"])
    return last[0]
