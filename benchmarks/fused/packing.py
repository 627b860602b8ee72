"""The sentences of K runs' batches in groups of equal shape, so that one product serves all runs.

Each run's batch is sorted by length, as `encoder.packing` does it, and cut into the same groups; a group is as wide as
its longest sentence in any run. Which sentences meet in a batch never changes. Shape suffixes: K runs, N sequences of a
run, T slots of a run in all views, U slots of a run in one view, R rows of a group, W slots of a row.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cse_train.encoder.packing import MASKED
from cse_train.text.tokens import TokenColumn


@dataclass(frozen=True)
class FusedGroup:
    """`rows` sequences of each run, each `width` slots wide."""

    rows: int
    width: int
    bias: Tensor | None
    """Additive attention bias [K, 1, R, 1, 1, W]; None when nothing is padded."""

    @property
    def slots(self) -> int:
        """Of one run and view."""
        return self.rows * self.width


@dataclass(frozen=True)
class FusedPacked:
    """K batches, group after group, row after row."""

    ids_KU: Tensor
    positions_U: Tensor
    groups: tuple[FusedGroup, ...]

    def to(self, device: torch.device | str) -> "FusedPacked":
        """The same batches with their tensors on `device`."""
        moved = (FusedGroup(g.rows, g.width, None if g.bias is None else g.bias.to(device)) for g in self.groups)
        return FusedPacked(self.ids_KU.to(device), self.positions_U.to(device), tuple(moved))

    def in_views(self, x_KUH: Tensor, views: int) -> Tensor:
        """[K, T, H]: the slots of a group once for each view, one view after the other inside the group."""
        blocks = x_KUH.split([group.slots for group in self.groups], 1)
        return torch.cat([part for block in blocks for part in [block] * views], 1)

    def split(self, x_KTH: Tensor, views: int) -> Iterator[tuple[FusedGroup, Tensor]]:
        """Each group with its block [K, V, R, W, H]."""
        blocks = x_KTH.split([views * group.slots for group in self.groups], 1)
        for group, block in zip(self.groups, blocks, strict=True):
            yield group, block.view(len(block), views, group.rows, group.width, -1)


def pack_runs(column: TokenColumn, rows_KN: np.ndarray, *, pad_id: int, groups: int = 8) -> FusedPacked:
    """Pack these rows of a corpus, the batch of each run."""
    lengths_KN = column.lengths[rows_KN]
    order_KN = np.argsort(lengths_KN, axis=1, kind="stable")
    lengths_KN = np.take_along_axis(lengths_KN, order_KN, 1)
    starts_KN = column.starts[np.take_along_axis(rows_KN, order_KN, 1)]
    runs, count = rows_KN.shape
    ids, positions, made = [], [], []
    for rows in np.array_split(np.arange(count), min(groups, count)):
        lengths_KR, starts_KR = lengths_KN[:, rows], starts_KN[:, rows]
        width = int(lengths_KR.max())
        at_W = np.arange(width)
        real_KRW = at_W < lengths_KR[..., None]
        at_KRW = np.minimum(starts_KR[..., None] + at_W, len(column.flat) - 1)
        ids.append(np.where(real_KRW, column.flat[at_KRW], pad_id).reshape(runs, -1))
        positions.append(np.tile(at_W, len(rows)))
        bias = None
        if not real_KRW.all():
            bias = torch.from_numpy(np.where(real_KRW, np.float32(0), np.float32(MASKED)))[:, None, :, None, None, :]
        made.append(FusedGroup(len(rows), width, bias))
    ids_KU = torch.from_numpy(np.concatenate(ids, 1).astype(np.int64))
    return FusedPacked(ids_KU, torch.from_numpy(np.concatenate(positions)), tuple(made))
