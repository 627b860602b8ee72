"""The contract of a method: a module of this folder that exports four names.

`VERSION: int`      raised whenever the numbers of a run change
`Config`            frozen keyword-only dataclass, defaults are the paper's
`make_collate(config, tokenizer, max_seq_length)`   gives `collate(share: Share) -> Batch`
`build(config, backbone, training=True)`            gives an `nn.Module` that is a `Method`

What `build` gives has an `encoder`; where it embeds with that and a `pooler` (`SentencePooler`) alone, it has these two
names and can be exported and scored with another pooler.

A method may also export (`optional` gives the default where it does not):
`columns(config) -> tuple[str, ...]`    the text columns that it needs; one, "text"
`lower_case(config) -> bool`            whether texts are lower-cased before they are tokenised; no
`tokens_kept(config, max_seq_length) -> int | None`     tokens of a text in the store; `max_seq_length`. None: all
`usable_rows(config, store) -> int64 array`     the corpus rows that may be drawn; all
`prepare(config, store, backbone, cache) -> TokenStore`     a pass over the corpus before the first step; none
`corpus_alone(config) -> bool`          whether trained encoders read the ids of the corpus alone, special ones aside,
                                        and nothing else reads their word embeddings; no
`TRAINING_ONLY: tuple[str, ...]`        prefixes of the state that `encode` does not need, which `build` may leave out
                                        when `training` is False; nothing

What a run's signature depends on may lie in `options`, in a module of the same name that needs no torch, so that a
plan is quick: `VERSION`, `Config`, and where there is something to say
`version(config) -> int`    the VERSION of a configuration, where a change moved the numbers of some; VERSION
`ADDED: dict[str, Added]`   options that came after runs had been trained: those runs keep their signatures; none
`inputs(config) -> dict[str, str]`      name -> content hash of what it reads beside encoder and corpus; nothing
`rank_dependent(config) -> bool`        whether the world size changes the result; no
`LIKE: str`                 a method whose learning rate it has in profiles that do not name it; none, the default rate
`WORDS: bool`               whether it builds on word vectors: `backbone.encoder` is `WordVectors`; no

A method may be fitted instead of trained: no parameter of its module requires a gradient, `forward` takes a batch's
statistics into buffers, the same ones on every rank, and the loss is only reported. `encode` must then work from the
buffers of any step on; before the first one it may give the encoder's own embeddings.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from cse_train.encoder.packing import Packed
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
        return Batch(inputs, self.examples, {name: t.to(device) for name, t in self.tensors.items()})


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


class Method(Protocol):
    """What `build` returns (an `nn.Module`).

    It may have `dev_encodes()`, what embeds where the dev set picks a checkpoint: several are scored, the first of the
    best counts, and `keep(place)` is told which one it was before `kept_state()`, a state for `encode`, is saved; and
    `text_of(text)`, what is read in a text's place at test time.
    Where an embedding is an `encoder`'s, pooled by a `SentencePooler`, these are attributes of the names `encoder` and
    `pooler`: then `cse export` writes it, and another pooler may be asked for at evaluation.
    """

    def forward(self, batch: Batch) -> StepOutput: ...

    def encode(self, packed: Packed) -> Tensor:
        """Test-time embeddings [N, D] in batch order; the caller sets eval mode.

        D is the encoder's width, or the method's own `width`.
        """
        ...
