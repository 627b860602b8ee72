"""Packs of views: blanks are filled where they are and nowhere else, in a pack of all views and in one of their own."""

import numpy as np
import pytest
import torch

from cse_train.encoder.generator import fill_views, pack_views
from cse_train.encoder.packing import Packed
from cse_train.text.masking import BLANK
from tests.cse_train.packs import lists_of


class Position:
    """Stands in for a generator: at each slot 1000 + its position."""

    def predict(self, packed: Packed, at_M: torch.Tensor) -> torch.Tensor:
        return 1000 + packed.positions_T[at_M]


@pytest.mark.parametrize("apart", [False, True])
def test_only_blanks_are_filled_each_by_its_own_prediction(apart: bool) -> None:
    rng = np.random.default_rng(0)
    whole = [rng.integers(10, 99, size) for size in rng.integers(3, 20, 12)]
    blanked = [np.where(rng.random(len(ids)) < 0.4, BLANK, ids) for ids in whole]
    packs, tensors = pack_views(whole, blanked, apart=apart, mask_id=4, pad_id=0)
    assert lists_of(packs["blanks"]) == [np.where(ids == BLANK, 4, ids).tolist() for ids in blanked]
    filled, ids_M = fill_views(Position(), packs, tensors)  # type: ignore[arg-type]
    first = [ids.tolist() for ids in whole]
    second = [np.where(ids == BLANK, 1000 + np.arange(len(ids)), ids).tolist() for ids in blanked]
    assert lists_of(filled["text"]) == (first if apart else first + second)
    assert not apart or lists_of(filled["second"]) == second
    assert ids_M is not None and ids_M.tolist() == [1000 + i for ids in blanked for i in np.flatnonzero(ids == BLANK)]


def test_no_blank_at_all() -> None:
    sentences = [np.array([2, 7, 3]), np.array([2, 3])]
    packs, tensors = pack_views(sentences, sentences, apart=False, mask_id=4, pad_id=0)
    filled, ids_M = fill_views(Position(), packs, tensors)  # type: ignore[arg-type]
    assert torch.equal(filled["text"].ids_T, packs["text"].ids_T)
    assert ids_M is not None and len(ids_M) == 0


def test_views_that_are_one_sentence_are_packed_once() -> None:
    packs, _ = pack_views([np.array([2, 7, 3])], [], apart=True, mask_id=None, pad_id=0)
    assert packs.keys() == {"text"} and packs["text"].rows == 1
