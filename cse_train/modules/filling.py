"""Blanks of second views, filled by a frozen masked language model and by nothing else: all other ids stay.

Shape suffixes: M blanks, T packed slots.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from cse_train.modules.generator import Generator
from cse_train.modules.packing import Packed, pack_lists
from cse_train.text.blanks import BLANK


def pack_blanks(
    whole: Sequence[np.ndarray], blanked: Sequence[np.ndarray], *, mask_id: int, pad_id: int
) -> tuple[Packed, Packed, dict[str, Tensor]]:
    """`whole` then `blanked` sentences in one pack, `blanked` alone in another, [MASK] at every blank.

    The tensors "blank_at_M" and "blank_from_M" are the slots of the same blanks in the one pack and in the other.
    """
    masked = [np.where(ids == BLANK, mask_id, ids) for ids in blanked]
    firsts = np.cumsum([0, *(int((ids == BLANK).sum()) for ids in blanked)])
    numbers = [_numbered(ids, first) for ids, first in zip(blanked, firsts, strict=False)]
    views = pack_lists([*whole, *masked], pad_id=pad_id)
    nothing = [np.full(len(ids), -1) for ids in whole]
    slots = {"blank_at_M": _slots([*nothing, *numbers]), "blank_from_M": _slots(numbers)}
    return views, pack_lists(masked, pad_id=pad_id), slots


def fill_blanks(
    generator: Generator, views: Packed, blanks: Packed, slots: Mapping[str, Tensor]
) -> tuple[Packed, Tensor]:
    """`views` with the generator's ids in the blanks, and those ids [M] in sentence order."""
    ids_M = generator.predict(blanks)[slots["blank_from_M"]]
    return replace(views, ids_T=views.ids_T.index_copy(0, slots["blank_at_M"], ids_M)), ids_M


def _numbered(ids: np.ndarray, first: int) -> np.ndarray:
    blank = ids == BLANK
    return np.where(blank, first + np.cumsum(blank) - 1, -1)


def _slots(numbers: Sequence[np.ndarray]) -> Tensor:
    packed_T = pack_lists(numbers, pad_id=-1).ids_T
    at = torch.nonzero(packed_T >= 0).squeeze(1)
    return at[packed_T[at].argsort()]
