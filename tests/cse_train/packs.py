"""Packed sequences as lists."""

from torch import Tensor

from cse_train.encoder.packing import Packed


def lists_of(packed: Packed, values_T: Tensor | None = None) -> list[list]:
    """What stands in each sequence's slots, in batch order, without the padding: the ids, or these values."""
    values_T = packed.ids_T if values_T is None else values_T.detach()
    return [row.tolist() for row in packed.unpacked(values_T)]
