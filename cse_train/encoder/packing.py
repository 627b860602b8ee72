"""Packed batches: the tokens of N sequences laid end to end, in a few groups of similar length.

Sequences are sorted only inside their batch, so that which sentences meet in a batch never changes; only padding goes
away. Shape suffixes: N sequences, T packed token slots (padding inside a group included), V dropout views.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from cse_train import distributed

GROUPS = 8
"""Largest number of length groups in a pack."""
GROUP_ON_CARD = 64
"""Smallest number of rows per group on a GPU, where each group costs kernels of its own and padding little."""
WIDTH_ON_CARD = 8
"""Multiple to which a group's width is rounded up on a GPU, so that few shapes recur and kernels are fast."""
MASKED = torch.finfo(torch.float32).min


@dataclass(frozen=True)
class LengthGroup:
    """Group of `rows` sequences of similar length, each `width` slots wide."""

    rows: int
    width: int
    bias: Tensor | None
    """Additive attention bias [rows, 1, 1, width], 0 or a very negative number; None when nothing is padded."""
    rounded: int = 0
    """Slots by which the width was rounded up, which no row of the group reads."""

    @property
    def slots(self) -> int:
        """Number of token slots of the group in one view."""
        return self.rows * self.width

    @property
    def needed(self) -> int:
        """Slots of a row that need a position embedding: the width without the slots added by rounding."""
        return self.width - self.rounded

    def to(self, device: torch.device | str) -> "LengthGroup":
        """Returns the group with its bias on `device`."""
        bias = None if self.bias is None else distributed.copy_to(self.bias, device)
        return replace(self, bias=bias)


@dataclass(frozen=True)
class Packed:
    """Batch of N sequences as flat token ids, group after group, row after row."""

    ids_T: Tensor
    positions_T: Tensor
    groups: tuple[LengthGroup, ...]
    order_N: Tensor
    """Batch row that each packed row holds."""
    lengths_N: Tensor
    """Length of each packed row, special tokens included."""
    host_lengths_N: Tensor
    """Copy of `lengths_N` in main memory, so that nothing has to wait for a GPU to know them."""

    @property
    def rows(self) -> int:
        """Number of sequences N in the batch."""
        return len(self.order_N)

    def to(self, device: torch.device | str) -> "Packed":
        """Returns the batch with its tensors on `device`; `host_lengths_N` stays in main memory."""
        tensors = (self.ids_T, self.positions_T, self.order_N, self.lengths_N)
        ids_T, positions_T, order_N, lengths_N = (distributed.copy_to(t, device) for t in tensors)
        groups = tuple(group.to(device) for group in self.groups)
        return Packed(ids_T, positions_T, groups, order_N, lengths_N, self.host_lengths_N)

    def split(self, packed_TH: Tensor, views: int = 1) -> Iterator[tuple[LengthGroup, Tensor]]:
        """Yields each group with its block [views * rows, width, H]; views lie one after the other inside a group."""
        sizes = [views * g.slots for g in self.groups]
        blocks = packed_TH.split(sizes) if len(sizes) > 1 else (packed_TH,)  # its gradient would be a copy
        for group, block in zip(self.groups, blocks, strict=True):
            yield group, block.view(views * group.rows, group.width, -1)

    def unsort(self, per_row: Sequence[Tensor], views: int) -> Tensor:
        """Joins per-group rows [views * rows, H] into [views, N, H] in batch order."""
        blocks = [t.view(views, g.rows, -1) for g, t in zip(self.groups, per_row, strict=True)]
        rows = torch.cat(blocks, dim=1)
        return torch.empty_like(rows).index_copy_(1, self.order_N, rows)

    def unpacked(self, values_T: Tensor) -> list[np.ndarray]:
        """Returns each sequence's values, in batch order and without the padding."""
        host_T1 = values_T.cpu()[:, None]
        blocks = (row.numpy() for _, block in self.split(host_T1) for row in block.squeeze(2))
        rows = [row[:length] for row, length in zip(blocks, self.host_lengths_N.tolist(), strict=True)]
        return [rows[i] for i in self.order_N.argsort().tolist()]

    def first_VN(self, views: int = 1) -> Tensor:
        """Returns int64 [V * N]: the slot of each packed row's position 0, all views of a group together."""
        ends = list(itertools.accumulate(views * group.slots for group in self.groups))  # torch.compile follows it
        device = self.ids_T.device
        starts = zip(self.groups, ends, strict=True)
        return torch.cat([torch.arange(e - views * g.slots, e, g.width, device=device) for g, e in starts])

    def row_T(self) -> Tensor:
        """Returns int64 [T]: the packed row to which each slot belongs."""
        device = self.ids_T.device
        widths = torch.cat([torch.full((g.rows,), g.width, device=device) for g in self.groups])
        rows_N = torch.arange(self.rows, device=device)
        return rows_N.repeat_interleave(widths, output_size=len(self.ids_T))  # else the host waits for their sum

    def attended_T(self) -> Tensor:
        """Returns bool [T]: True where a slot holds a real token."""
        return self.positions_T < self.lengths_N[self.row_T()]

    def attended_M(self) -> Tensor:
        """Returns int64 [M]: the slots of real tokens, computed on the host.

        A boolean mask on a GPU would make the host wait for it.
        """
        lengths = self.host_lengths_N.numpy()
        widths = np.repeat([group.width for group in self.groups], [group.rows for group in self.groups])
        skipped = np.cumsum(widths - lengths) - (widths - lengths)
        slots = np.arange(lengths.sum()) + np.repeat(skipped, lengths)
        return distributed.copy_to(torch.from_numpy(slots), self.ids_T.device)


def pack(
    flat: np.ndarray,
    starts: np.ndarray,
    lengths: np.ndarray,
    *,
    pad_id: int | None = 0,
    groups: int | None = None,
    width: int | None = None,
) -> Packed:
    """Packs N rows `flat[starts[i] : starts[i] + lengths[i]]` into at most `groups` groups of similar length.

    The groups have equally many rows: oneDNN compiles each shape once, and these recur. `groups=None` takes as many as
    pay on this rank's device, on a GPU with their widths rounded up. `width` makes every group that wide, for a loss
    that counts the padding. `pad_id` None, for a tokenizer without padding, is 0: no text sees padded slots. Raises
    ValueError for an empty batch, an empty row, or a row that is longer than `width`.
    """
    if len(starts) == 0 or lengths.min() < 1:
        raise ValueError("pack: every batch needs at least one row and every row at least one token")
    if width is not None and lengths.max() > width:
        raise ValueError(f"pack: a row of {lengths.max()} tokens is longer than width={width}")
    order = np.argsort(lengths, kind="stable")
    starts_N, lengths_N = starts[order], lengths[order]
    rounding = WIDTH_ON_CARD if groups is None and width is None and distributed.has_card() else 1
    sizes = [len(rows) for rows in np.array_split(order, min(groups or count_groups(len(order)), len(order)))]
    longest = lengths_N[np.cumsum(sizes) - 1] if width is None else np.full(len(sizes), width)
    widths = -(-longest // rounding) * rounding
    width_N = np.repeat(widths, sizes)
    positions_T = np.arange(width_N.sum()) - np.repeat(np.cumsum(width_N) - width_N, width_N)
    real_T = positions_T < np.repeat(lengths_N, width_N)
    at_T = np.minimum(np.repeat(starts_N, width_N) + positions_T, len(flat) - 1)
    bias_T = np.where(real_T, np.float32(0), np.float32(MASKED))
    length_groups, first = [], 0
    for rows, row_width, needed in zip(sizes, widths.tolist(), longest.tolist(), strict=True):
        slots = slice(first, first + rows * row_width)
        first = slots.stop
        padded = not real_T[slots].all()
        bias = torch.from_numpy(bias_T[slots].reshape(rows, 1, 1, row_width)) if padded else None
        length_groups.append(LengthGroup(rows, row_width, bias, row_width - needed))
    host_lengths_N = torch.from_numpy(lengths_N.astype(np.int64))
    return Packed(
        ids_T=torch.from_numpy(np.where(real_T, flat[at_T], pad_id or 0).astype(np.int64)),
        positions_T=torch.from_numpy(positions_T),
        groups=tuple(length_groups),
        order_N=torch.from_numpy(order),
        lengths_N=host_lengths_N,
        host_lengths_N=host_lengths_N,
    )


def count_groups(rows: int) -> int:
    """Returns the largest number of length groups that pays on this rank's device, for a batch of `rows` rows."""
    return max(1, min(GROUPS, rows // GROUP_ON_CARD)) if distributed.has_card() else GROUPS


def pack_lists(
    sequences: Sequence[Sequence[int] | np.ndarray],
    *,
    pad_id: int | None = 0,
    groups: int | None = None,
    width: int | None = None,
) -> Packed:
    """Packs sequences of token ids that are not in a token store; see `pack`."""
    lengths = np.array([len(s) for s in sequences])
    flat = np.concatenate([np.asarray(s, dtype=np.int64) for s in sequences])
    return pack(
        flat, np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths, pad_id=pad_id, groups=groups, width=width
    )
