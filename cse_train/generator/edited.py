"""Packs edited sentences, and fills them with the generator's tokens (DiffCSE 3).

Shape suffixes: T packed slots.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cse_train.encoder.packing import Packed, pack_lists
from cse_train.generator.generator import Generator
from cse_train.text.masking import Edit


@dataclass(frozen=True)
class Edited:
    """Pack of edited sentences, with the labels of its slots for DiffCSE's conditional tasks."""

    packed: Packed
    source_T: Tensor
    """Original ids; [MASK] where a token was inserted."""
    replaced_T: Tensor
    """Bool: True where a token differs from the original, was inserted, or follows a deleted token."""
    chosen_M: Tensor
    """Int64: slots that masking chose."""

    def replaced_fraction(self) -> Tensor:
        """Returns the share of the real tokens that are replaced."""
        return self.replaced_T.sum() / self.packed.lengths_N.sum()


def pack_edits(edits: Sequence[Edit], *, pad_id: int, width: int | None = None) -> tuple[Packed, dict[str, Tensor]]:
    """Packs the generator's inputs, and tensors "source_T", "edited_T" and "chosen_T" in the same slots (`Edit`).

    "edited_M" and "chosen_M" are the slots where these are true, "inner_M" the slots of real tokens except each first.
    """
    masked = pack_lists([edit.masked_L for edit in edits], pad_id=pad_id, width=width)
    edited_T = pack_lists([edit.edited_L for edit in edits], width=width).ids_T.bool()
    chosen_T = pack_lists([edit.chosen_L for edit in edits], width=width).ids_T.bool()
    return masked, {
        "inner_M": (masked.attended_T() & (masked.positions_T > 0)).nonzero().squeeze(1),
        "source_T": pack_lists([edit.source_L for edit in edits], pad_id=pad_id, width=width).ids_T,
        "edited_T": edited_T,
        "edited_M": edited_T.nonzero().squeeze(1),
        "chosen_T": chosen_T,
        "chosen_M": chosen_T.nonzero().squeeze(1),
    }


def fill(generator: Generator | None, masked: Packed, tensors: Mapping[str, Tensor], only_edited: bool) -> Edited:
    """Returns the edited sentences x''; `masked` and `tensors` come from `pack_edits`.

    The generator's ids go to every position, unmasked ones and the last special token included, as released
    (diffcse/models.py:184); with `only_edited` to the inserted ones alone. Position 0 keeps its token and padding gets
    id 0, as released. Without a generator nothing is filled, and masked positions stay masked. A generator that draws
    does so at every slot, whether it is used or not: the draws of a run depend on it.
    """
    source_T, edited_T, attended_T = tensors["source_T"], tensors["edited_T"], masked.attended_T()
    first_T, ids_T = masked.positions_T == 0, masked.ids_T
    if generator is not None and generator.sample and not only_edited:
        ids_T = generator.predict(masked)
    elif generator is not None:
        at_M = tensors["edited_M" if only_edited else "inner_M"]
        ids_T = source_T.index_copy(0, at_M, generator.predict(masked, at_M))
    ids_T = torch.where(first_T, source_T, ids_T)
    replaced_T = attended_T & (edited_T | (ids_T != source_T))
    filled = replace(masked, ids_T=torch.where(attended_T, ids_T, 0))
    return Edited(filled, source_T, replaced_T, tensors["chosen_M"])
