"""Poolers, the BatchNorm projector and linear layers against transformers and torch."""

from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from cse_train import numerics
from cse_train.encoder import ops as module
from cse_train.encoder.ops import linear, linear_gelu
from cse_train.encoder.packing import pack_lists
from cse_train.encoder.pooling import (
    POOLERS,
    BatchNormProjector,
    JointBatchNorm,
    MlpProjector,
    SentencePooler,
    has_projector,
    needs_tokens,
    pool,
)
from cse_train.encoder.transformers_io import encoder_from_transformers
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


def by_hand(states: tuple[torch.Tensor, ...], mask: torch.Tensor, pooler: str) -> torch.Tensor:
    """The definitions, sentence by sentence."""
    if pooler.startswith("cls"):
        return states[-1][:, 0]
    if pooler == "last":
        return torch.stack([row[int(n) - 1] for row, n in zip(states[-1], mask.sum(1), strict=True)])
    first = {"mean": -1, "first_last": 0, "first_last_layer1": 1}[pooler]
    both = (states[first] + states[-1]) / 2
    return torch.stack([row[: int(n)].mean(0) for row, n in zip(both, mask.sum(1), strict=True)])


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("pooler", POOLERS)
def test_T6_T7_every_pooler_against_transformers(kind, config_of, peer_of, pad, sentences, layers, pooler):
    peer = peer_of(config_of(kind, layers))
    batch = pad(sentences, peer.config.pad_token_id)
    expected = by_hand(peer(**batch, output_hidden_states=True).hidden_states, batch["attention_mask"], pooler)
    ours = encoder_from_transformers(peer.state_dict(), peer.config).eval()
    pooled = pool(ours(pack_lists(sentences), tokens=needs_tokens(pooler)), pooler)
    assert pooled.shape == (1, len(sentences), 32)
    torch.testing.assert_close(pooled[0], expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("layers", [1, 3])
def test_the_last_token_is_the_same_whichever_side_is_padded(config_of, peer_of, sentences, layers):
    """Sentence after sentence without padding, as transformers gives it; both views of a pack."""
    peer = peer_of(config_of("bert", layers))
    alone = [peer(input_ids=torch.tensor([ids])).last_hidden_state[0, -1] for ids in sentences]
    ours = encoder_from_transformers(peer.state_dict(), peer.config).eval()
    for groups in (1, 2, 8):
        hidden = ours(pack_lists(sentences, groups=groups), views=2, tokens=True)
        torch.testing.assert_close(pool(hidden, "last"), torch.stack(alone).expand(2, -1, -1), atol=1e-5, rtol=0)


def test_T6_the_two_first_last_poolers_differ(config_of, peer_of, sentences):
    peer = peer_of(config_of("bert", 3))
    hidden = encoder_from_transformers(peer.state_dict(), peer.config).eval()(pack_lists(sentences), tokens=True)
    assert (pool(hidden, "first_last") - pool(hidden, "first_last_layer1")).abs().max() > 0.05


def test_mlp_is_new_tanh_and_normal():
    mlp = MlpProjector(256, torch.Generator().manual_seed(0))
    assert abs(mlp.dense.weight.std().item() - 0.02) < 5e-4
    assert mlp.dense.bias.eq(0).all()
    x = torch.randn(5, 256)
    torch.testing.assert_close(mlp(x), torch.tanh(x @ mlp.dense.weight.T))


@pytest.mark.parametrize(
    ("pooler", "in_training", "in_eval"),
    [("cls", True, True), ("cls_train_only", True, False), ("cls_no_mlp", False, False), ("mean", False, False)],
)
def test_where_the_mlp_acts(config_of, peer_of, sentences, pooler, in_training, in_eval):
    assert (has_projector(pooler, True), has_projector(pooler, False)) == (in_training, in_eval)
    peer = peer_of(config_of("bert", 1))
    encoder = encoder_from_transformers(peer.state_dict(), peer.config).eval()
    module = SentencePooler(pooler, encoder.width)
    hidden = encoder(pack_lists(sentences), tokens=module.needs_tokens)
    for mode, acts in ((True, in_training), (False, in_eval)):
        module.train(mode)
        assert torch.equal(module(hidden), pool(hidden, pooler)) is not acts


@pytest.fixture
def views_VNH() -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.stack([torch.randn(5, 8, generator=generator), 3 + 2 * torch.randn(5, 8, generator=generator)])


@pytest.fixture
def projector() -> BatchNormProjector:
    return BatchNormProjector(8, torch.Generator().manual_seed(1)).train()


def test_T14_output_has_mean_0_and_variance_1_over_both_views(projector, views_VNH) -> None:
    rows = projector(views_VNH).flatten(0, 1)
    torch.testing.assert_close(rows.mean(0), torch.zeros(8), atol=1e-5, rtol=0)
    torch.testing.assert_close(rows.var(0, unbiased=False), torch.ones(8), atol=5e-2, rtol=0)  # eps


def test_T14_joint_statistics_are_not_the_views_own(projector, views_VNH) -> None:
    joint = projector(views_VNH)
    apart = torch.stack([projector(view) for view in views_VNH])
    assert (joint - apart).abs().max() > 0.1


def test_T14_equals_torch_on_the_joined_rows_with_gradient_and_running_statistics(projector, views_VNH) -> None:
    inner, outer = nn.BatchNorm1d(16), nn.BatchNorm1d(8, affine=False)
    mine, theirs = views_VNH.clone().requires_grad_(), views_VNH.clone().requires_grad_()
    for _ in range(3):
        expected = outer(projector.outer(F.relu(inner(projector.inner(theirs.flatten(0, 1)))))).view(2, 5, 8)
        actual = projector(mine)
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)
    weights = torch.linspace(-1, 1, 80).view(2, 5, 8)
    gradients = [torch.autograd.grad((y * weights).sum(), x)[0] for y, x in ((actual, mine), (expected, theirs))]
    torch.testing.assert_close(*gradients, atol=1e-5, rtol=1e-4)
    for own, reference in ((projector.inner_norm, inner), (projector.outer_norm, outer)):
        torch.testing.assert_close(own.running_mean, reference.running_mean)
        torch.testing.assert_close(own.running_var, reference.running_var)


def test_T8_evaluation_uses_the_running_statistics_and_leaves_them(projector, views_VNH) -> None:
    projector(views_VNH)
    before = {name: value.clone() for name, value in projector.named_buffers()}
    projector.eval()
    together, alone = projector(views_VNH), projector(views_VNH[:, :1])
    torch.testing.assert_close(together[:, :1], alone)
    assert all(torch.equal(value, before[name]) for name, value in projector.named_buffers())


def test_T14_one_row_cannot_be_normalised(projector) -> None:
    with pytest.raises(ValueError, match="rows=1; training needs at least 2 rows"):
        projector(torch.zeros(1, 1, 8))


def test_half_precision_rows_are_normalised_in_fp32(views_VNH) -> None:
    norm = JointBatchNorm(8, affine=True).train()
    assert norm(1000 + views_VNH.bfloat16()).dtype == torch.bfloat16
    assert norm.running_var.dtype == torch.float32


@pytest.mark.parametrize(("kind", "count"), [(MlpProjector, 590_592), (BatchNormProjector, 2_362_368)])
def test_parameter_counts_at_base_width(kind: type[nn.Module], count: int) -> None:
    with torch.device("meta"):
        assert sum(p.numel() for p in kind(768).parameters()) == count


def test_new_weights_are_small_normal_draws() -> None:
    projector = BatchNormProjector(64)
    for layer in (projector.inner, projector.outer):
        assert layer.bias is None
        assert abs(layer.weight.std() - 0.02) < 1e-3


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
