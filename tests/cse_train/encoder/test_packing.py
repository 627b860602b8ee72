"""Packing moves rows and never changes them; blanks of packs, masked inputs and the most probable ids."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from cse_train.encoder.generator import GENERATOR_RUN, fill_views, largest, most_probable, pack_views
from cse_train.encoder.masked_lm import Masking
from cse_train.encoder.packing import Packed, pack, pack_lists
from cse_train.text.masking import BLANK
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


MASKING = Masking(ratio=0.5, mask_id=4, pad_id=0, vocab_size=1000, special_ids=(2, 3))


def made() -> tuple[list[np.ndarray], list[np.random.Generator]]:
    draw = np.random.default_rng(0)
    sequences = [np.array([2, *draw.integers(10, 1000, size), 3]) for size in (9, 1, 30, 4, 17)]
    return sequences, [np.random.default_rng(i) for i in range(5)]


def test_targets_are_what_stood_at_the_slots_and_nothing_else_changed() -> None:
    sequences, rngs = made()
    packed, at_M, target_M = MASKING.pack(sequences, rngs)
    plain = pack_lists(sequences)
    assert torch.equal(packed.order_N, plain.order_N) and torch.equal(packed.lengths_N, plain.lengths_N)
    assert torch.equal(plain.ids_T[at_M], target_M)
    kept = torch.ones(len(plain.ids_T), dtype=torch.bool)
    kept[at_M] = False
    assert torch.equal(packed.ids_T[kept], plain.ids_T[kept])
    assert packed.attended_T()[at_M].all() and not set(target_M.tolist()) & {2, 3}
    assert 0.3 < len(at_M) / 61 < 0.7


def test_a_sequence_is_masked_by_its_own_generator_alone() -> None:
    sequences, rngs = made()
    packed, _, _ = MASKING.pack(sequences, rngs)
    alone, _, _ = MASKING.pack(sequences[2:3], [np.random.default_rng(2)])
    row = packed.ids_T[packed.row_T() == packed.order_N.tolist().index(2)]
    assert torch.equal(row[: len(sequences[2])], alone.ids_T)


@pytest.mark.parametrize(
    "numbers", [1, GENERATOR_RUN, 2 * GENERATOR_RUN, 3 * GENERATOR_RUN - 1, 3 * GENERATOR_RUN, 1000]
)
def test_the_largest_is_that_of_argmax(numbers: int) -> None:
    x = torch.randn(50, numbers, generator=torch.Generator().manual_seed(numbers))
    assert torch.equal(largest(x), x.argmax(-1))
    coarse = x.round()
    assert torch.equal(largest(coarse), coarse.argmax(-1))
    for place in (0, numbers // 2, numbers - 1):
        single = torch.zeros(1, numbers).index_fill(1, torch.tensor([place]), 1.0)
        assert largest(single).item() == place


@pytest.mark.parametrize("slots", [0, 1, 128, 130])
def test_most_probable_is_argmax_of_the_logits(slots: int) -> None:
    generator = torch.Generator().manual_seed(1)
    hidden, weight, bias = (torch.randn(*size, generator=generator) for size in ((slots, 16), (700, 16), (700,)))
    assert torch.equal(most_probable(hidden, weight, bias), F.linear(hidden, weight, bias).argmax(-1))
