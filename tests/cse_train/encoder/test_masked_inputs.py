import numpy as np
import torch

from cse_train.encoder.masked_lm import Masking
from cse_train.encoder.packing import pack_lists

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
