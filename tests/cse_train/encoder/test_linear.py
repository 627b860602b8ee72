"""Linear layers by oneDNN's product against torch's own, in value and gradient."""

from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from cse_train import numerics
from cse_train.encoder import ops as module
from cse_train.encoder.ops import linear, linear_gelu
from cse_train.numerics import (
    CAST,
    ONEDNN,
    ROUNDED,
    TORCH,
    bf16_products,
    fast_fp32,
    fp32_path,
    multiplies_bf16,
    product_path,
)

needs_onednn = pytest.mark.skipif(fp32_path() != ONEDNN, reason="oneDNN's fast mode is not exact here, or slower")
needs_bf16 = pytest.mark.skipif(not multiplies_bf16(), reason="this CPU does not multiply in bf16")


def a_layer(inputs: int = 24, outputs: int = 40) -> nn.Linear:
    generator, layer = torch.Generator().manual_seed(0), nn.Linear(inputs, outputs)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, generator=generator)
    return layer


def rows(count: int = 37, inputs: int = 24) -> torch.Tensor:
    return torch.randn(count, inputs, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def products(monkeypatch):
    """What oneDNN is asked to do behind the product, in order."""
    asked, product = [], module._product

    def told(x, weight, bias, then, kind):
        asked.append(then)
        return product(x, weight, bias, then, kind)

    monkeypatch.setattr(module, "_product", told)
    return asked


@needs_onednn
@pytest.mark.parametrize("function", [linear, linear_gelu])
def test_value_and_gradients_are_those_of_fp64(function, products):
    layer, x = a_layer(), rows().requires_grad_()
    with fast_fp32():
        found = function(x, layer)
        assert products == ["none"]
        weight = torch.randn(found.shape, generator=torch.Generator().manual_seed(2))
        (found * weight).sum().backward()
    exact_x = x.detach().double().requires_grad_()
    exact = nn.Linear(24, 40).double()
    exact.load_state_dict(layer.state_dict())
    expected = exact(exact_x) if function is linear else F.gelu(exact(exact_x))
    (expected * weight.double()).sum().backward()
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
    pairs = [(x, exact_x), (layer.weight, exact.weight), (layer.bias, exact.bias)]
    for ours, theirs in pairs:
        torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=1e-5, atol=2e-5)


@needs_onednn
def test_gelu_in_one_pass_without_gradients(products):
    layer, x = a_layer(), rows()
    with fast_fp32(), torch.inference_mode():
        found = linear_gelu(x, layer)
    assert products == ["gelu"]
    torch.testing.assert_close(found, F.gelu(layer(x)).detach(), rtol=1e-5, atol=1e-5)


@needs_onednn
@pytest.mark.parametrize("wanted", ["x", "weight", "bias"])
def test_only_the_wanted_gradient_is_made_and_only_its_input_kept(wanted):
    layer, x = a_layer(), rows()
    tensors = {"x": x, "weight": layer.weight, "bias": layer.bias}
    for name, tensor in tensors.items():
        tensor.requires_grad_(name == wanted)
    kept = []
    with fast_fp32(), torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.shape) or t, lambda t: t):
        linear(x, layer).sum().backward()
    assert kept == {"x": [layer.weight.shape], "weight": [x.shape], "bias": []}[wanted]
    assert [name for name, tensor in tensors.items() if tensor.grad is not None] == [wanted]


@pytest.mark.parametrize(
    ("x", "dtype", "context"),
    [
        (rows(), torch.float32, nullcontext),
        (rows().double(), torch.float64, fast_fp32),
        (rows()[None], torch.float32, fast_fp32),
    ],
    ids=["outside of fast_fp32", "fp64", "three dimensions"],
)
def test_torchs_own_elsewhere(x, dtype, context, products):
    layer = a_layer().to(dtype)
    with context():
        assert torch.equal(linear(x, layer), F.linear(x, layer.weight, layer.bias))
        with torch.no_grad():
            assert torch.equal(linear_gelu(x, layer), F.gelu(F.linear(x, layer.weight, layer.bias)))
    assert not products


def test_another_device_multiplies_itself(products):
    with fast_fp32():
        layer, x = a_layer().to("meta"), rows().to("meta")
        assert linear(x, layer).device.type == "meta"
        with torch.no_grad():
            assert linear_gelu(x, layer).device.type == "meta"
    assert not products


def test_autocast_keeps_its_own_precision(products):
    with fast_fp32(), torch.autocast("cpu", torch.bfloat16):
        assert linear(rows(), a_layer()).dtype == torch.bfloat16
    assert not products


def test_the_caller_stands_inside_only_while_the_gate_is_passed():
    assert product_path(rows()) == TORCH
    with fast_fp32() as passed:
        assert product_path(rows()) == (ONEDNN if passed else TORCH)
    assert product_path(rows()) == TORCH


@pytest.mark.parametrize("path", [ROUNDED, pytest.param(CAST, marks=needs_bf16), ONEDNN, TORCH])
@pytest.mark.parametrize("function", [linear, linear_gelu])
def test_products_in_bf16_are_near_fp64(function, path, monkeypatch):
    """Every path, also one that is not this machine's fastest; outside of the block nothing is rounded.

    bf16 is passed on, and taken, on one path alone.
    """
    monkeypatch.setattr(numerics, "bf16_path", lambda: path)
    dtype = torch.bfloat16 if path == CAST else torch.float32
    layer, x = a_layer(), rows().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16), bf16_products(x.device):
        assert product_path(x) == path
        near = function(x, layer)
    weight = torch.randn(near.shape, generator=torch.Generator().manual_seed(2))
    (near * weight).sum().backward()
    assert near.dtype == dtype and product_path(x) == TORCH
    exact_x, exact = x.detach().double().requires_grad_(), nn.Linear(24, 40).double()
    exact.load_state_dict(layer.state_dict())
    expected = exact(exact_x) if function is linear else F.gelu(exact(exact_x))
    (expected * weight.double()).sum().backward()
    pairs = [(near, expected), (x.grad, exact_x.grad)]
    pairs += [(getattr(layer, name).grad, getattr(exact, name).grad) for name in ("weight", "bias")]
    for ours, theirs in pairs:
        assert ours is not None and theirs is not None and (ours is near or ours.dtype == torch.float32)
        assert (ours.double() - theirs).norm() < 0.01 * theirs.norm()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16), bf16_products(x.device):
        torch.testing.assert_close(function(x, layer), near.detach(), rtol=0.02, atol=0.02)


@needs_bf16
@pytest.mark.parametrize("function", [linear, linear_gelu])
def test_rows_of_bf16_give_a_gradient_of_bf16_and_weights_one_of_fp32(function, monkeypatch):
    """What a layer hands on is the same numbers as rounded rows of fp32."""
    monkeypatch.setattr(numerics, "bf16_path", lambda: CAST)
    results = []
    for dtype in (torch.float32, torch.bfloat16):
        layer, x = a_layer(), rows().bfloat16().to(dtype).requires_grad_()
        with torch.autocast("cpu", torch.bfloat16), bf16_products(x.device):
            y = function(x, layer)
        y.float().square().sum().backward()
        assert x.grad.dtype == dtype and layer.weight.grad.dtype == layer.bias.grad.dtype == torch.float32
        results.append((y, layer.weight.grad, layer.bias.grad, x.grad.bfloat16()))
    for of_fp32, of_bf16 in zip(*results, strict=True):
        assert torch.equal(of_fp32, of_bf16)


def test_bf16_products_change_nothing_without_autocast_or_on_another_device(products):
    with bf16_products(torch.device("cpu")):
        assert torch.equal(linear(rows(), a_layer()), a_layer()(rows()))
    with torch.autocast("cpu", torch.bfloat16), bf16_products(torch.device("meta")):
        assert linear(rows(), a_layer()).dtype == torch.bfloat16
    assert not products
