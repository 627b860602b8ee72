"""Word embeddings of which only the rows that a corpus uses are trained.

A row that no batch reads has no gradient, and AdamW without weight decay leaves such a row where it is. So a run that
reads corpus tokens alone need not carry the others through zeroing, clipping, AdamW and all-reduce: the result is the
same, and every state dict has the whole table. Shape suffixes: V vocabulary, K rows in use, T tokens, H width.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.optimizer import StateDict

from cse_train.encoder.encoder import Encoder

MOMENTS = ("exp_avg", "exp_avg_sq")
"""Names of AdamW's states that have a number for each number of a parameter."""


class CompactEmbedding(nn.Module):
    """Replacement for `nn.Embedding` that trains the rows in use alone; in eval mode it reads any row.

    An id that is not in use raises IndexError in training. State dicts hold the whole table, [V, H] `weight`.
    """

    ids_K: Tensor
    row_V: Tensor
    rest_VH: Tensor

    def __init__(self, table: nn.Embedding, ids_K: Tensor) -> None:
        super().__init__()
        weight = table.weight.detach()
        self.weight = nn.Parameter(weight[ids_K].clone(), requires_grad=table.weight.requires_grad)
        self.register_buffer("ids_K", ids_K, persistent=False)
        self.register_buffer("row_V", torch.full((len(weight),), -1), persistent=False)
        self.register_buffer("rest_VH", weight, persistent=False)
        self.row_V[ids_K] = torch.arange(len(ids_K), device=ids_K.device)
        row = -1 if table.padding_idx is None else int(self.row_V[table.padding_idx])
        self.padding_row = None if row < 0 else row

    def forward(self, ids_T: Tensor) -> Tensor:
        row_T = self.row_V[ids_T]
        if self.training:
            return F.embedding(row_T, self.weight, self.padding_row)
        known_T = (row_T >= 0).unsqueeze(-1)
        return torch.where(known_T, F.embedding(row_T.clamp(min=0), self.weight), F.embedding(ids_T, self.rest_VH))

    def whole(self, values_KH: Tensor, elsewhere_VH: Tensor) -> Tensor:
        """Returns a table [V, H] with `values_KH` in the rows in use and `elsewhere_VH` in all others."""
        return elsewhere_VH.index_copy(0, self.ids_K, values_KH)

    def _save_to_state_dict(self, destination: dict[str, Tensor], prefix: str, keep_vars: bool) -> None:
        destination[f"{prefix}weight"] = self.whole(self.weight.detach(), self.rest_VH)

    def _load_from_state_dict(self, state_dict: Mapping[str, Tensor], prefix: str, *args: Any) -> None:
        tensors = dict(state_dict)
        if (weight := tensors.get(f"{prefix}weight")) is not None and weight.shape == self.rest_VH.shape:
            self.rest_VH.copy_(weight)
            tensors[f"{prefix}weight"] = weight[self.ids_K.to(weight.device)]  # a checkpoint is read into main memory
        super()._load_from_state_dict(tensors, prefix, *args)


def compact(model: nn.Module, ids_K: np.ndarray) -> None:
    """Lets every encoder of a model read and train these rows alone, if nothing else reads its word embeddings."""
    ids = torch.from_numpy(np.asarray(ids_K, dtype=np.int64))
    for encoder in [module for module in model.modules() if isinstance(module, Encoder)]:
        encoder.word = CompactEmbedding(encoder.word, ids)  # type: ignore[assignment]  # reads like the one it replaces


def whole_moments(model: nn.Module, optimiser: torch.optim.Optimizer) -> StateDict:
    """Returns the optimiser's state dict with whole moments [V, H], zero in the rows that are not in use."""
    return _with_moments(model, optimiser, optimiser.state_dict(), _whole)


def compact_moments(model: nn.Module, optimiser: torch.optim.Optimizer, state: StateDict) -> StateDict:
    """Returns a state dict of `whole_moments` in the form that this model's optimiser loads."""
    return _with_moments(model, optimiser, state, lambda table, moment: moment[table.ids_K.to(moment.device)])


def _whole(table: CompactEmbedding, moment: Tensor) -> Tensor:
    return table.whole(moment, torch.zeros_like(table.rest_VH))


def _with_moments(
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    state: StateDict,
    change: Callable[[CompactEmbedding, Tensor], Tensor],
) -> StateDict:
    states = dict(state["state"])
    parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    numbers = {id(parameter): number for number, parameter in enumerate(parameters)}
    for table in [module for module in model.modules() if isinstance(module, CompactEmbedding)]:
        index = numbers.get(id(table.weight))
        if index in states:
            moments = {name: change(table, states[index][name]) for name in MOMENTS}
            states[index] = states[index] | moments
    return state | {"state": states}
