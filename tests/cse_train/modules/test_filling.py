"""Blanks of second views: filled where they are, in both packs alike, and nowhere else."""

import numpy as np
import torch

from cse_train.modules.filling import fill_blanks, pack_blanks
from cse_train.modules.packing import Packed
from cse_train.text.blanks import BLANK


class Position:
    """Stands in for a generator: at each slot 1000 + its position."""

    def predict(self, packed: Packed) -> torch.Tensor:
        return 1000 + packed.positions_T


def rows_of(packed: Packed) -> list[list[int]]:
    rows = [row for _, block in packed.split(packed.ids_T[:, None]) for row in block.squeeze(2).tolist()]
    order = np.argsort(packed.order_N.numpy())
    return [rows[i][: int(packed.lengths_N[i])] for i in order]


def test_only_blanks_are_filled_each_by_its_own_prediction() -> None:
    rng = np.random.default_rng(0)
    whole = [rng.integers(10, 99, size) for size in rng.integers(3, 20, 12)]
    blanked = [np.where(rng.random(len(ids)) < 0.4, BLANK, ids) for ids in whole]
    views, blanks, slots = pack_blanks(whole, blanked, mask_id=4, pad_id=0)
    assert rows_of(blanks) == [np.where(ids == BLANK, 4, ids).tolist() for ids in blanked]
    filled, ids_M = fill_blanks(Position(), views, blanks, slots)  # type: ignore[arg-type]
    expected = [np.where(ids == BLANK, 1000 + np.arange(len(ids)), ids).tolist() for ids in blanked]
    assert rows_of(filled) == [ids.tolist() for ids in whole] + expected
    assert ids_M.tolist() == [1000 + i for ids in blanked for i in np.flatnonzero(ids == BLANK)]


def test_no_blank_at_all() -> None:
    sentences = [np.array([2, 7, 3]), np.array([2, 3])]
    views, blanks, slots = pack_blanks(sentences, sentences, mask_id=4, pad_id=0)
    filled, ids_M = fill_blanks(Position(), views, blanks, slots)  # type: ignore[arg-type]
    assert torch.equal(filled.ids_T, views.ids_T) and len(ids_M) == 0
