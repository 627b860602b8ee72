"""The contract of a method: a module of this folder that exports four names.

`VERSION: int`              raised whenever the numbers of a run change
`Config`                    frozen keyword-only dataclass, defaults are the paper's
`make_collate(config, tokenizer)`   gives `collate(store, rows, rng_of) -> Batch`
`build(config, backbone)`   gives an `nn.Module` that is a `Method`
Optional: `columns(config) -> tuple[str, ...]`, the text columns that the method reads (default: one, "text");
`rank_dependent(config) -> bool`, whether the world size changes the result (default: no);
`TRAINING_ONLY: tuple[str, ...]`, prefixes of the state that `encode` does not need.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from cse_train.modules.packing import Packed


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


class Method(Protocol):
    """What `build` returns (an `nn.Module`)."""

    def forward(self, batch: Batch) -> StepOutput: ...

    def encode(self, packed: Packed) -> Tensor:
        """Test-time embeddings [N, D] in batch order; the caller sets eval mode."""
        ...
