"""Packed batches: the tokens of N sequences laid end to end, in a few groups of similar length.

Sorting happens inside the batch, so which sentences meet in a batch never changes; only padding goes away.
Shape suffixes: N sequences, T packed token slots (padding inside a group included), V dropout views.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

MASKED = torch.finfo(torch.float32).min


@dataclass(frozen=True)
class Group:
    """`rows` sequences, each `width` slots wide."""

    rows: int
    width: int
    bias: Tensor | None
    """Additive attention bias [rows, 1, 1, width], 0 or a very negative number; None when nothing is padded."""

    @property
    def slots(self) -> int:
        return self.rows * self.width


@dataclass(frozen=True)
class Packed:
    """N sequences as flat ids, group after group, row after row."""

    ids_T: Tensor
    positions_T: Tensor
    groups: tuple[Group, ...]
    order_N: Tensor
    """`order_N[i]` is the batch row that packed row i holds."""
    lengths_N: Tensor
    """Length of each packed row, special tokens included."""

    @property
    def rows(self) -> int:
        return len(self.order_N)

    def to(self, device: torch.device | str) -> "Packed":
        move = lambda t: t.to(device, non_blocking=True)  # noqa: E731
        groups = tuple(Group(g.rows, g.width, None if g.bias is None else move(g.bias)) for g in self.groups)
        return Packed(move(self.ids_T), move(self.positions_T), groups, move(self.order_N), move(self.lengths_N))

    def split(self, packed_TH: Tensor, views: int = 1) -> Iterator[tuple[Group, Tensor]]:
        """Yield each group with its block [views * rows, width, H]; views lie one after the other inside a group."""
        sizes = [views * g.slots for g in self.groups]
        for group, block in zip(self.groups, packed_TH.split(sizes), strict=True):
            yield group, block.view(views * group.rows, group.width, -1)

    def unsort(self, per_row: Sequence[Tensor], views: int) -> Tensor:
        """Join per-group rows [views * rows, H] into [views, N, H] in batch order."""
        blocks = [t.view(views, g.rows, -1) for g, t in zip(self.groups, per_row, strict=True)]
        joined = torch.cat(blocks, dim=1)
        return torch.empty_like(joined).index_copy_(1, self.order_N, joined)

    def attended_T(self) -> Tensor:
        """Bool [T]: True where a slot holds a real token."""
        rows = torch.cat([torch.arange(g.rows, device=self.ids_T.device).repeat_interleave(g.width) for g in self.groups])
        first = torch.cat([torch.full((g.slots,), s, device=self.ids_T.device) for g, s in self._first_rows()])
        return self.positions_T < self.lengths_N[first + rows]

    def _first_rows(self) -> Iterator[tuple[Group, int]]:
        first = 0
        for group in self.groups:
            yield group, first
            first += group.rows


def pack(flat: np.ndarray, starts: np.ndarray, lengths: np.ndarray, *, pad_id: int = 0, groups: int = 4) -> Packed:
    """Gather N rows `flat[starts[i] : starts[i] + lengths[i]]` into at most `groups` groups of similar length.

    Raises ValueError for an empty batch or an empty row.
    """
    if len(starts) == 0 or lengths.min() < 1:
        raise ValueError("pack: every batch needs at least one row and every row at least one token")
    order = np.argsort(lengths, kind="stable")
    ids, positions, made = [], [], []
    for rows in np.array_split(order, min(groups, len(order))):
        width = int(lengths[rows].max())
        slot = np.arange(width)
        real = slot[None] < lengths[rows][:, None]
        at = np.minimum(starts[rows][:, None] + slot[None], len(flat) - 1)
        ids.append(np.where(real, flat[at], pad_id).ravel())
        positions.append(np.tile(slot, len(rows)))
        bias = None if real.all() else np.where(real, np.float32(0), np.float32(MASKED))[:, None, None, :]
        made.append(Group(len(rows), width, None if bias is None else torch.from_numpy(bias)))
    return Packed(
        ids_T=torch.from_numpy(np.concatenate(ids).astype(np.int64)),
        positions_T=torch.from_numpy(np.concatenate(positions)),
        groups=tuple(made),
        order_N=torch.from_numpy(order),
        lengths_N=torch.from_numpy(lengths[order].astype(np.int64)),
    )


def pack_lists(sequences: Sequence[Sequence[int]], *, pad_id: int = 0, groups: int = 4) -> Packed:
    """`pack` for sequences that are not in a token store."""
    lengths = np.array([len(s) for s in sequences])
    flat = np.concatenate([np.asarray(s, dtype=np.int64) for s in sequences])
    return pack(flat, np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths, pad_id=pad_id, groups=groups)
