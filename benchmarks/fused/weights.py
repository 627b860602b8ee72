"""The weights of K runs in three tensors: word embeddings, matrices and vectors, each with the runs in front.

An optimiser step is a few launches for all runs then, and a gradient comes as three tensors. Vectors, biases and
LayerNorm, do not decay. Shape suffixes: K runs, V rows of the word table, H width, P numbers of a run.
"""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

WORDS = "encoder.word.weight"
"""A table of its own, from which rows are read."""


class FusedWeights:
    """Leaves that are trained, and views of them by the names of one model's parameters."""

    def __init__(self, models: Sequence[Mapping[str, Tensor]], device: torch.device) -> None:
        shapes = {name: tensor.shape for name, tensor in models[0].items()}
        assert all({name: tensor.shape for name, tensor in model.items()} == shapes for model in models[1:])
        self.matrices = {name: shape for name, shape in shapes.items() if len(shape) > 1 and name != WORDS}
        self.vectors = {name: shape for name, shape in shapes.items() if len(shape) <= 1}
        self.words_KVH = nn.Parameter(torch.stack([model[WORDS].detach() for model in models]).to(device))
        self.matrices_KP = nn.Parameter(self._joined(models, self.matrices).to(device))
        self.vectors_KP = nn.Parameter(self._joined(models, self.vectors).to(device))

    @staticmethod
    def _joined(models: Sequence[Mapping[str, Tensor]], shapes: Mapping[str, torch.Size]) -> Tensor:
        return torch.stack([torch.cat([model[name].detach().flatten() for name in shapes]) for model in models])

    @property
    def leaves(self) -> tuple[nn.Parameter, nn.Parameter, nn.Parameter]:
        """Words, matrices and vectors: the last do not decay."""
        return self.words_KVH, self.matrices_KP, self.vectors_KP

    def views(self) -> dict[str, Tensor]:
        """Name -> [K, ...], through which gradients reach the leaves."""
        by_name: dict[str, Tensor] = {WORDS: self.words_KVH}
        for leaf, shapes in ((self.matrices_KP, self.matrices), (self.vectors_KP, self.vectors)):
            parts = leaf.split([math.prod(shape) for shape in shapes.values()], 1)
            for (name, shape), part in zip(shapes.items(), parts, strict=True):
                by_name[name] = part.view(len(part), *shape)
        return by_name

    def gradients(self) -> dict[str, Tensor]:
        """Name -> the gradient [K, ...] of a finished backward pass."""
        by_name: dict[str, Tensor] = {}
        words = {WORDS: self.words_KVH.shape[1:]}
        for leaf, shapes in zip(self.leaves, (words, self.matrices, self.vectors), strict=True):
            assert leaf.grad is not None
            parts = leaf.grad.flatten(1).split([math.prod(shape) for shape in shapes.values()], 1)
            for (name, shape), part in zip(shapes.items(), parts, strict=True):
                by_name[name] = part.view(len(part), *shape)
        return by_name

    @torch.no_grad()
    def load_into(self, model: nn.Module, run: int) -> None:
        """Copy a run's weights into a single model."""
        views = self.views()
        for name, parameter in model.named_parameters():
            parameter.copy_(views[name][run])
