"""The kernels of short rows against plain attention: on a card as they are, elsewhere by Triton's own interpreter.

pip install triton
TRITON_INTERPRET=1 python -m pytest -m slow tests/cse_train/encoder/test_short_attention.py
"""

import os
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from cse_train import distributed, numerics
from cse_train.encoder import card, card_attention
from cse_train.encoder.attention import attend_packed
from cse_train.encoder.card_attention import attend_short, find_block, is_right, locate_rows
from cse_train.encoder.encoder import Encoder
from cse_train.encoder.packing import Packed, pack_lists

CARD = torch.cuda.is_available()
DEVICE = torch.device("cuda" if CARD else "cpu")
pytest.importorskip("triton", reason="no Triton: pip install triton")
pytestmark = [
    pytest.mark.gpu if CARD else pytest.mark.slow,
    pytest.mark.skipif(
        not CARD and os.environ.get("TRITON_INTERPRET") != "1",
        reason="no card and no interpreter: set TRITON_INTERPRET=1",
    ),
]
LENGTHS = (3, 9, 16, 12, 5)
ERRORS = {torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 2e-2}
"""Largest, of the largest number. The interpreter has no bf16."""


def packed_of(lengths: tuple[int, ...] = LENGTHS, groups: int = 2) -> Packed:
    return pack_lists([[7] * length for length in lengths], groups=groups).to(DEVICE)


def rows_of(packed: Packed, views: int) -> list[tuple[int, int, int]]:
    """First slot, width and length of every row of every view, by counting."""
    found, slot, first = [], 0, 0
    for group in packed.groups:
        for _ in range(views):
            for length in packed.host_lengths_N[first : first + group.rows].tolist():
                found.append((slot, group.width, length))
                slot += group.width
        first += group.rows
    return found


def with_gradient(attend: Callable[[Tensor], Tensor], qkv: Tensor) -> tuple[Tensor, Tensor]:
    slots = qkv.detach().clone().requires_grad_()
    mixed = attend(slots)
    weights = torch.randn(mixed.shape, generator=torch.Generator().manual_seed(3)).to(mixed.device)
    (mixed.float() * weights).sum().backward()
    assert slots.grad is not None
    return mixed.detach().float().cpu(), slots.grad.float().cpu()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16 if CARD else torch.float32])
@pytest.mark.parametrize(
    ("lengths", "groups", "views", "heads", "size", "block"),
    [
        (LENGTHS, 2, 2, 2, 16, 16),
        ((4, 4, 4), 1, 1, 3, 32, 16),
        ((33, 2, 64, 17), 2, 3, 2, 64, 64),
        ((1,), 1, 2, 1, 128, 16),
    ],
)
def test_mixed_heads_and_gradients_are_plain_attentions(lengths, groups, views, heads, size, block, dtype):
    packed = packed_of(lengths, groups)
    count = views * sum(group.slots for group in packed.groups)
    qkv = torch.randn(count, 3 * heads * size, generator=torch.Generator().manual_seed(1)).to(dtype)
    places = locate_rows(packed)
    on_cpu = pack_lists([[7] * length for length in lengths], groups=groups)
    wanted = with_gradient(lambda slots: attend_packed(slots, on_cpu, views, heads, 0.0), qkv.float())
    found = with_gradient(lambda slots: attend_short(slots, places, views, heads, 0.0, block), qkv.to(DEVICE))
    for one, other in zip(found, wanted, strict=True):
        assert (one - other).abs().max() <= ERRORS[dtype] * other.abs().max()


def test_dropout_drops_its_share_and_the_gradient_goes_through_the_same_masks():
    packed, views, heads, size, rate = packed_of(), 2, 2, 16, 0.25
    places, rows = locate_rows(packed), rows_of(packed, views)
    count = sum(width for _, width, _ in rows)

    def attend(slots: Tensor) -> Tensor:
        torch.manual_seed(5)
        return attend_short(slots.view(count, -1), places, views, heads, rate, 16).view(count, heads, size)

    marked = torch.zeros(count, 3, heads, size, dtype=torch.float16, device=DEVICE)  # equal weights over one-hot values
    for slot, width, _ in rows:
        for place in range(width):
            marked[slot + place, 2, :, place] = 1
    kept = attend(marked).float().cpu()
    masks = [kept[slot : slot + width, :, :length] * length for slot, width, length in rows]
    numbers = torch.cat([mask.flatten() for mask in masks])
    assert torch.allclose(numbers[numbers > 0], torch.tensor(4 / 3), atol=2e-3)
    assert 0.72 < (numbers > 0).float().mean() < 0.78, "of 2,404 weights, 3.4 deviations"
    qkv = torch.randn(count, 3, heads, size, generator=torch.Generator().manual_seed(1)).half()

    def by_loop(slots: Tensor) -> Tensor:
        mixed = []
        for (slot, width, length), mask in zip(rows, masks, strict=True):
            query, key, value = (slots[slot : slot + width, part].transpose(0, 1) for part in range(3))
            weights = (query @ key[:, :length].mT * size**-0.5).softmax(-1) * mask.transpose(0, 1)
            mixed.append((weights @ value[:, :length]).transpose(0, 1))
        return torch.cat(mixed)

    wanted, found = with_gradient(by_loop, qkv.float()), with_gradient(attend, qkv.to(DEVICE))
    for one, other in zip(found, wanted, strict=True):
        assert (one - other).abs().max() <= 4e-3 * other.abs().max()


def test_each_call_draws_masks_of_its_own_from_torchs_generator():
    packed = packed_of()
    slots = torch.ones(sum(group.slots for group in packed.groups), 3 * 32, dtype=torch.float16, device=DEVICE)
    draws = []
    for seed in (1, None, 1):
        if seed is not None:
            torch.manual_seed(seed)
        draws.append(attend_short(slots, locate_rows(packed), 1, 2, 0.5, 16))
    assert torch.equal(draws[0], draws[2]) and not torch.equal(draws[0], draws[1])


def test_padding_is_written_so_that_nothing_behind_it_is_no_number():
    packed = packed_of((2, 9), 1)
    slots = torch.randn(18, 3 * 16, generator=torch.Generator().manual_seed(1)).half().to(DEVICE)
    assert attend_short(slots, locate_rows(packed), 1, 1, 0.0, 16).isfinite().all()


@pytest.mark.skipif(CARD, reason="fp32 does not take this way on a card")
@pytest.mark.parametrize("views", [1, 2])
@pytest.mark.parametrize("tokens", [False, True])
def test_an_encoder_gives_the_same_embeddings(config_of, monkeypatch, views, tokens):
    encoder = Encoder(config_of("bert", 3)).eval()
    encoder.initialise(torch.Generator().manual_seed(0))
    packed = pack_lists([list(range(5, 5 + length)) for length in LENGTHS], groups=2)
    wanted = encoder(packed, views=views, tokens=tokens).cls_VNH
    calls = []
    monkeypatch.setattr(numerics, "is_card", lambda device: True)
    monkeypatch.setattr(distributed, "has_card", lambda: True)
    monkeypatch.setattr(card_attention, "find_block", lambda *about: calls.append(about) or 16)
    found = encoder(packed, views=views, tokens=tokens).cls_VNH
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0)
    assert [about[1:] for about in calls] == [(views * 5 * 4, 8, torch.float32)]


def test_where_the_kernels_are_used(monkeypatch):
    packed = packed_of()
    monkeypatch.setattr(card_attention, "is_right", lambda *about: True)
    used = find_block(packed, 20, 64, torch.bfloat16)
    assert used == (16 if CARD else 0)
    if CARD:
        refused = [(packed_of((65,), 1), 20, 64, torch.float16), (packed, 2**24, 64, torch.float16)]
        refused += [(packed, 20, 48, torch.float16), (packed, 20, 64, torch.float32)]
        assert [find_block(*about) for about in refused] == [0] * 4
        assert find_block(packed_of((17,), 1), 20, 64, torch.float16) == 32


def test_a_machine_that_cannot_make_them_says_so_once_and_computes_without(monkeypatch, caplog):
    is_right.cache_clear()
    monkeypatch.setattr(card, "find_lacking", lambda: "")
    assert is_right(DEVICE, torch.float16, 32, 16)
    is_right.cache_clear()

    def broken(*about: object) -> Tensor:
        raise RuntimeError("no such target: sm_12\nmore")

    monkeypatch.setattr(card_attention, "attend_short", broken)
    assert not is_right(DEVICE, torch.float16, 32, 16) and not is_right(DEVICE, torch.float16, 32, 16)
    said = [record.getMessage() for record in caplog.records]
    assert said == ["slow attention of short rows: the kernels for it cannot be used here: no such target: sm_12"]
    is_right.cache_clear()
    monkeypatch.setattr(card_attention, "attend_short", lambda slots, *rest: slots[:, :64] * 1.0)
    assert not is_right(DEVICE, torch.float16, 32, 16), "wrong numbers"
    is_right.cache_clear()
    monkeypatch.setattr(card, "find_lacking", lambda: "a C compiler")
    assert not is_right(DEVICE, torch.float16, 32, 16)
    is_right.cache_clear()
