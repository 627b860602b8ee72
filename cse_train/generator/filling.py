"""Packs of first and second views, in whose blanks a frozen masked language model predicts ids; all others stay.

Shape suffixes: M blanks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from cse_train.encoder.packing import Packed, pack_lists
from cse_train.generator.generator import Generator
from cse_train.text.masking import BLANK

Packs = dict[str, Packed]
Sentences = Sequence[np.ndarray]


def pack_views(
    first: Sentences, others: Sentences, *, apart: bool, mask_id: int | None, pad_id: int | None
) -> tuple[Packs, dict[str, Tensor]]:
    """Packs all views as "text"; with `apart` the second views go to "second", for an encoder of their own.

    Without `others`, both views are `first`, packed once. `mask_id` None: no sentence has blanks. Otherwise the second
    views are in "blanks" too, with [MASK] at every blank, and the tensors "blank_at_M" and "blank_from_M" are the slots
    of the same blanks in the views' pack and in "blanks".
    """
    if not others:
        return {"text": pack_lists(first, pad_id=pad_id)}, {}
    name, prefix = ("second", []) if apart else ("text", first)
    masked = others if mask_id is None else [np.where(ids == BLANK, mask_id, ids) for ids in others]
    packs = {name: pack_lists([*prefix, *masked], pad_id=pad_id)}
    if apart:
        packs["text"] = pack_lists(first, pad_id=pad_id)
    if mask_id is None:
        return packs, {}
    packs["blanks"] = pack_lists(masked, pad_id=pad_id)
    firsts = np.cumsum([0, *(int((ids == BLANK).sum()) for ids in others)])
    numbers = [_number_blanks(ids, first) for ids, first in zip(others, firsts, strict=False)]
    nothing = [np.full(len(ids), -1) for ids in prefix]
    return packs, {"blank_at_M": _slot_of([*nothing, *numbers]), "blank_from_M": _slot_of(numbers)}


def fill_views(
    generator: Generator | None, packs: Mapping[str, Packed], tensors: Mapping[str, Tensor]
) -> tuple[Packs, Tensor | None]:
    """Returns the packs with the generator's most probable ids in the blanks, and those ids [M] in sentence order."""
    if generator is None:
        return dict(packs), None
    name = "second" if "second" in packs else "text"
    ids_M = generator.predict(packs["blanks"], tensors["blank_from_M"])
    filled_T = packs[name].ids_T.index_copy(0, tensors["blank_at_M"], ids_M)
    return dict(packs) | {name: replace(packs[name], ids_T=filled_T)}, ids_M


def _number_blanks(ids: np.ndarray, first: int) -> np.ndarray:
    blank = ids == BLANK
    return np.where(blank, first + np.cumsum(blank) - 1, -1)


def _slot_of(numbers: Sentences) -> Tensor:
    packed_T = pack_lists(numbers, pad_id=-1).ids_T
    slots = torch.nonzero(packed_T >= 0).squeeze(1)
    return slots[packed_T[slots].argsort()]
