"""Packing moves rows, never changes them."""

import numpy as np
import pytest
import torch

from cse_train.encoder.packing import pack, pack_lists
from tests.cse_train.packs import lists_of


def rows_of(packed) -> list[list[int]]:
    """The batch rows that a packed batch holds, in batch order."""
    rows: list[list[int]] = [[] for _ in range(packed.rows)]
    blocks = (block for _, part in packed.split(packed.ids_T[:, None]) for block in part.squeeze(2))
    for packed_row, block in enumerate(blocks):
        rows[int(packed.order_N[packed_row])] = block[: int(packed.lengths_N[packed_row])].tolist()
    return rows


@pytest.mark.parametrize("groups", [1, 3, 4, 50])
def test_rows_come_back_whole(sentences, groups):
    packed = pack_lists(sentences, groups=groups)
    assert rows_of(packed) == sentences == lists_of(packed)
    assert len(packed.groups) == min(groups, len(sentences))


def test_groups_save_padding_and_mark_what_is_left(sentences):
    one, four = pack_lists(sentences, groups=1), pack_lists(sentences, groups=4)
    assert len(four.ids_T) < len(one.ids_T) == len(sentences) * 30
    for packed in (one, four):
        assert int(packed.attended_T().sum()) == sum(map(len, sentences))
        biases = torch.cat([(torch.zeros(g.slots) if g.bias is None else g.bias.ravel()) for g in packed.groups])
        assert torch.equal(biases == 0, packed.attended_T())


@pytest.mark.parametrize("groups", [1, 3, 50])
def test_the_slots_of_real_tokens_are_known_on_the_host(sentences, groups):
    for packed in (pack_lists(sentences, groups=groups), pack_lists(sentences, groups=groups, width=37)):
        assert torch.equal(packed.attended_M(), packed.attended_T().nonzero().squeeze(1))
        assert torch.equal(packed.host_lengths_N, packed.lengths_N)


def test_equal_lengths_need_no_bias():
    assert all(group.bias is None for group in pack_lists([[1, 2, 3]] * 8).groups)


def test_rows_of_a_flat_store():
    flat = np.arange(100, dtype=np.int32)
    packed = pack(flat, np.array([90, 5]), np.array([10, 3]), pad_id=7)
    assert rows_of(packed) == [list(range(90, 100)), [5, 6, 7]]
    assert packed.positions_T.tolist() == [0, 1, 2, *range(10)]


def test_unsort_restores_batch_order_for_every_view(sentences):
    packed = pack_lists(sentences, groups=3)
    marks = [torch.stack([torch.tensor([float(row), view]) for view in (0, 1) for row in rows])
             for rows in packed.order_N.split([g.rows for g in packed.groups])]  # fmt: skip
    restored = packed.unsort(marks, views=2)
    assert restored[..., 0].tolist() == [list(range(len(sentences)))] * 2
    assert restored[:, 0, 1].tolist() == [0, 1]


@pytest.mark.parametrize("lists", [[], [[1, 2], []]])
def test_empty_batches_and_rows_are_refused(lists):
    with pytest.raises(ValueError, match="at least one"):
        pack_lists(lists)


def test_to_moves_everything(sentences):
    moved = pack_lists(sentences).to("meta")
    tensors = [
        moved.ids_T,
        moved.positions_T,
        moved.order_N,
        moved.lengths_N,
        *(g.bias for g in moved.groups if g.bias is not None),
    ]
    assert {t.device.type for t in tensors} == {"meta"}


def test_a_given_width_pads_every_group_to_it() -> None:
    packed = pack_lists([[5, 6], [7, 8, 9]], pad_id=1, groups=1, width=5)
    assert packed.ids_T.tolist() == [5, 6, 1, 1, 1, 7, 8, 9, 1, 1]
    assert [group.width for group in packed.groups] == [5]
    assert packed.attended_T().sum() == 5


def test_a_row_longer_than_the_given_width_is_refused() -> None:
    with pytest.raises(ValueError, match="3 tokens is longer than width=2"):
        pack_lists([[5, 6], [7, 8, 9]], width=2)
