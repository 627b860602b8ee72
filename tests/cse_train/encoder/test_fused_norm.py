"""The kernels around a LayerNorm against torch's: on a card as they are, elsewhere by Triton's own interpreter.

pip install triton
TRITON_INTERPRET=1 python -m pytest -m slow tests/cse_train/encoder/test_fused_norm.py
"""

import os
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from cse_train.encoder import card
from cse_train.encoder import encoder as layer_module
from cse_train.encoder.card import LayerStates, add_and_norm, is_fused, is_right
from cse_train.encoder.encoder import Encoder
from cse_train.encoder.packing import pack_lists

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
DTYPE = torch.bfloat16 if CARD else torch.float16
"""The interpreter has no bf16."""
ERRORS = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 2e-2}
"""Largest, of the largest number."""


def inputs(rows: int, width: int, dtype: torch.dtype) -> tuple[list[Tensor], nn.LayerNorm]:
    """Product, bias and x; and a norm with weights of its own."""
    generator = torch.Generator().manual_seed(1)
    sizes = ((rows, width), (width,), (rows, width), (width,), (width,))
    product, bias, x, weight, shift = (torch.randn(size, generator=generator) for size in sizes)
    norm = nn.LayerNorm(width, eps=1e-3)
    with torch.no_grad():
        norm.weight.copy_(weight)
        norm.bias.copy_(shift)
    return [product.to(dtype), bias.to(dtype), x], norm


def gradients(tensors: Sequence[Tensor], norm: nn.LayerNorm) -> list[Tensor]:
    grads = [tensor.grad for tensor in (*tensors, norm.weight, norm.bias)]
    assert all(grad is not None for grad in grads)
    return [grad.double().cpu() for grad in grads if grad is not None]


def require_near(found: Sequence[Tensor], wanted: Sequence[Tensor], error: float) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert (one - other).abs().max() <= error * other.abs().max()


@pytest.mark.parametrize("dtype", [DTYPE, torch.float32])
@pytest.mark.parametrize(("rows", "width"), [(1, 16), (5, 24), (70, 130), (3, 1024)])
@pytest.mark.parametrize("read", ["full", "cast", "both"])
def test_rows_and_gradients_are_those_of_fp64(rows, width, dtype, read):
    """Whoever reads the result: the next sum, the next product or both."""
    given, norm = inputs(rows, width, dtype)
    ours = [tensor.clone().to(DEVICE).requires_grad_() for tensor in given]
    exact = [tensor.double().requires_grad_() for tensor in given]
    oracle = nn.LayerNorm(width, eps=norm.eps).double()
    oracle.load_state_dict({name: tensor.double() for name, tensor in norm.state_dict().items()})
    norm.to(DEVICE)
    full, cast = add_and_norm(ours[0], ours[1], ours[2], norm, 0.0)
    wanted = oracle(exact[2] + exact[0] + exact[1])
    assert full.dtype == torch.float32 and cast.dtype == dtype
    require_near([full.double().cpu()], [wanted], 2e-6)
    require_near([cast.double().cpu()], [wanted], ERRORS[dtype])
    by_full, by_cast = torch.randn(2, rows, width, generator=torch.Generator().manual_seed(2))
    by_cast = by_cast.to(dtype)
    parts = [(full, by_full)] * (read != "cast") + [(cast, by_cast)] * (read != "full")
    torch.autograd.backward([part for part, _ in parts], [by.to(DEVICE) for _, by in parts])
    wanted.backward(sum(by.double() for _, by in parts))
    require_near(gradients(ours, norm), gradients(exact, oracle), ERRORS[dtype])


def test_dropout_drops_its_share_and_the_gradient_goes_through_the_same_mask():
    rows, width, rate = 64, 96, 0.25
    (_, bias, x), norm = inputs(rows, width, DTYPE)
    norm.to(DEVICE)
    product = torch.ones(rows, width, dtype=DTYPE, device=DEVICE).requires_grad_()
    bias, x = (tensor.to(DEVICE).requires_grad_() for tensor in (bias, x))
    torch.manual_seed(5)
    full, _ = add_and_norm(product, bias, x, norm, rate)
    by = torch.randn(full.shape, generator=torch.Generator().manual_seed(2)).to(DEVICE)
    full.backward(by)
    kept = (product.grad.float() / x.grad).cpu()
    assert torch.allclose(kept[kept > 0.5], torch.tensor(4 / 3), atol=2e-2)
    mask = (kept > 0.5).float()
    assert 0.735 < mask.mean() < 0.765, "of 6,144 numbers, 2.7 deviations"
    for one, other in ((mask[1:], mask[:-1]), (mask[:, 1:], mask[:, :-1])):
        assert 0.60 < (one == other).float().mean() < 0.65, "independent: 0.625"
    added = x.detach() + (product.detach().float() + bias.detach().float()) * mask.to(DEVICE) / (1 - rate)
    torch.testing.assert_close(full.detach(), norm(added).detach(), atol=1e-5, rtol=0)


def test_each_call_draws_a_mask_of_its_own_from_torchs_generator():
    (product, bias, x), norm = (part for part in inputs(3, 32, DTYPE))
    product, bias, x, norm = product.to(DEVICE), bias.to(DEVICE), x.to(DEVICE), norm.to(DEVICE)
    draws = []
    for seed in (1, None, 1):
        if seed is not None:
            torch.manual_seed(seed)
        draws.append(add_and_norm(product, bias, x, norm, 0.5).full)
    assert torch.equal(draws[0], draws[2]) and not torch.equal(draws[0], draws[1])


@pytest.mark.skipif(CARD, reason="fp32 does not take this way on a card")
@pytest.mark.parametrize("tokens", [False, True])
def test_an_encoder_gives_the_same_embeddings_and_gradients(config_of, monkeypatch, tokens):
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    encoder = Encoder(config_of("bert", 3, **still)).train()
    encoder.initialise(torch.Generator().manual_seed(0))
    packed = pack_lists([list(range(5, 5 + length)) for length in (3, 9, 16)], groups=2)

    def compute() -> tuple[Tensor, list[Tensor]]:
        encoder.zero_grad()
        embedded = encoder(packed, views=2, tokens=tokens).cls_VNH
        embedded.square().sum().backward()
        return embedded.detach(), [p.grad.clone() for p in encoder.parameters() if p.grad is not None]

    wanted, exact = compute()
    calls: list[LayerStates] = []
    monkeypatch.setattr(layer_module, "is_fused", lambda product: True)
    real = layer_module.add_and_norm
    monkeypatch.setattr(layer_module, "add_and_norm", lambda *about: calls.append(real(*about)) or calls[-1])
    embedded, grads = compute()
    assert len(calls) == 6
    torch.testing.assert_close(embedded, wanted, atol=1e-5, rtol=0)
    largest = max(grad.abs().max() for grad in exact)
    assert all((one - other).abs().max() <= 1e-5 * largest for one, other in zip(grads, exact, strict=True))


def test_where_the_kernels_are_used(monkeypatch):
    monkeypatch.setattr(card, "is_right", lambda *about: True)
    assert is_fused(torch.empty(3, 768, dtype=torch.bfloat16, device=DEVICE)) == CARD
    for refused in (torch.empty(3, 4097, dtype=torch.float16), torch.empty(3, 768)):
        assert not is_fused(refused.to(DEVICE))


def test_a_machine_that_makes_wrong_numbers_or_none_computes_without(monkeypatch, caplog):
    is_right.cache_clear()
    monkeypatch.setattr(card, "find_lacking", lambda: "")
    assert is_right(DEVICE, DTYPE, 48)
    is_right.cache_clear()
    monkeypatch.setattr(card, "add_and_norm", lambda product, *rest: LayerStates(product.float(), product * 1.0))
    assert not is_right(DEVICE, DTYPE, 48), "wrong numbers"
    is_right.cache_clear()

    def broken(*about: object) -> LayerStates:
        raise RuntimeError("no such target: sm_12\nmore")

    monkeypatch.setattr(card, "add_and_norm", broken)
    caplog.clear()
    assert not is_right(DEVICE, DTYPE, 48) and not is_right(DEVICE, DTYPE, 48)
    said = [record.getMessage() for record in caplog.records]
    assert said == ["slow LayerNorm: the kernels for it cannot be used here: no such target: sm_12"]
    is_right.cache_clear()
