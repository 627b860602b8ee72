"""The way of a card, gone on a CPU: fused attention, few length groups, weights cast together."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

from cse_train import distributed, numerics
from cse_train.encoder import packing
from cse_train.encoder.attention import attend_packed
from cse_train.encoder.card import LayerStates, cast_together
from cse_train.encoder.card_attention import attend_fused, attention_masks
from cse_train.encoder.encoder import ContinuousPrompts, Encoder, Hidden, Layer
from cse_train.encoder.packing import pack_lists
from cse_train.encoder.transformers_io import encoder_from_transformers
from tests.cse_train.encoder.test_encoder import gradients_as_transformers


@contextmanager
def card() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(numerics, "is_card", lambda device: True)
        patched.setattr(distributed, "has_card", lambda: True)
        yield


@pytest.fixture
def pair(kind, config_of, peer_of):
    """Ours and transformers' model with the same weights, which train without dropout."""
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    peer = peer_of(config_of(kind, 3, **still))
    return encoder_from_transformers(peer.state_dict(), peer.config).train(), peer.train()


def read(hidden: Hidden, tokens: bool) -> Tensor:
    """[V, N, H]: means over the tokens, or [CLS]."""
    return hidden.mean_VNH(hidden.last_TH) if tokens and hidden.last_TH is not None else hidden.cls_VNH


def loss_and_gradients(encoder: Encoder, compute: Callable[[], Tensor]) -> tuple[float, dict[str, Tensor]]:
    encoder.zero_grad()
    embedded = compute()
    weights = torch.randn(embedded.shape[1:], generator=torch.Generator().manual_seed(3))
    loss = torch.tanh(embedded * weights).mean()
    loss.backward()
    return loss.item(), {name: p.grad.clone() for name, p in encoder.named_parameters() if p.grad is not None}


def same_loss(wanted: float) -> object:
    """A mean of float32 terms up to 1 that cancel: the order of the sums, which CPUs choose, moves it by some 1e-8."""
    return pytest.approx(wanted, rel=1e-6, abs=6e-8)


def require_near(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    """Gradients that differ by 1e-5 of the largest number of all."""
    assert one.keys() == other.keys() and one
    largest = max(gradient.abs().max() for gradient in other.values())
    for name, gradient in one.items():
        assert (gradient - other[name]).abs().max() <= 1e-5 * largest, name


@pytest.mark.parametrize("views", [1, 2])
@pytest.mark.parametrize("groups", [None, 3])
@pytest.mark.parametrize("tokens", [False, True])
def test_loss_and_gradients_are_the_cpus(pair, sentences, tokens, groups, views):
    ours, _ = pair

    def compute() -> Tensor:
        return read(ours(pack_lists(sentences, groups=groups), views=views, tokens=tokens), tokens)

    wanted, exact = loss_and_gradients(ours, compute)
    with card():
        loss, gradients = loss_and_gradients(ours, compute)
    assert loss == same_loss(wanted)
    require_near(gradients, exact)


@pytest.mark.parametrize("tokens", [False, True])
def test_loss_and_gradients_are_transformers(pair, sentences, pad, tokens):
    ours, peer = pair
    batch = pad(sentences, peer.config.pad_token_id)
    theirs = peer(**batch).last_hidden_state
    real = batch["attention_mask"][..., None]
    embedded = (theirs * real).sum(1) / real.sum(1) if tokens else theirs[:, 0]
    weights = torch.randn(embedded.shape, generator=torch.Generator().manual_seed(3))
    wanted = torch.tanh(embedded * weights).mean()
    wanted.backward()
    with card():
        loss, _ = loss_and_gradients(ours, lambda: read(ours(pack_lists(sentences), tokens=tokens), tokens))
    assert loss == same_loss(wanted.item())
    gradients = gradients_as_transformers(ours)
    require_near(gradients, {name: dict(peer.named_parameters())[name].grad for name in gradients})


@pytest.mark.parametrize("length", [3, 8])
@pytest.mark.parametrize("tokens", [False, True])
def test_prompts_before_a_frozen_encoder(pair, sentences, tokens, length):
    ours, _ = pair
    ours.requires_grad_(False)
    torch.manual_seed(0)
    prompts = ContinuousPrompts(ours.config, length)

    def compute() -> Tensor:
        prompts.zero_grad()
        return read(ours(pack_lists(sentences), views=2, tokens=tokens, prompts=prompts), tokens)

    wanted, none = loss_and_gradients(ours, compute)
    exact = prompts.weight.grad.clone()
    with card():
        loss, _ = loss_and_gradients(ours, compute)
    assert not none and loss == same_loss(wanted)
    require_near({"prompts": prompts.weight.grad}, {"prompts": exact})


def test_few_groups_of_widths_that_recur():
    rows = [[5] * (3 + at % 15) for at in range(130)]
    with card():
        some, wide, asked = pack_lists(rows), pack_lists(rows, width=19), pack_lists(rows, groups=3)
        counts = [packing.count_groups(size) for size in (1, 63, 128, 512, 9999)]
    assert counts == [1, 1, 2, 8, 8]
    assert [(group.width, group.needed) for group in some.groups] == [(16, 10), (24, 17)]
    assert all(group.bias is not None for group in some.groups)
    assert [(group.width, group.needed) for group in wide.groups] == [(19, 19)] * 2
    assert [group.width for group in asked.groups] == [group.needed for group in asked.groups] == [7, 12, 17]
    assert len(pack_lists(rows).groups) == 8


@pytest.mark.parametrize("views", [1, 2])
def test_rounded_widths_give_the_same_embeddings(pair, sentences, views):
    ours, _ = pair
    with card():
        rounded = pack_lists(sentences)
    assert [group.width for group in rounded.groups] == [32]
    for tokens in (False, True):
        wanted = read(ours(pack_lists(sentences, groups=1), views=views, tokens=tokens), tokens)
        torch.testing.assert_close(read(ours(rounded, views=views, tokens=tokens), tokens), wanted, atol=1e-5, rtol=0)


def test_a_width_rounded_beyond_the_positions_is_padding_alone(config_of):
    encoder = Encoder(config_of("roberta", 1)).eval()  # 38 positions
    encoder.initialise(torch.Generator().manual_seed(0))
    with card():
        packed = pack_lists([[5] * 38, [6] * 20])
        assert [group.width for group in packed.groups] == [40]
        found = encoder(packed).cls_VNH
        with pytest.raises(ValueError, match="length=39 exceeds its 38 positions"):
            encoder(pack_lists([[5] * 39]))
    torch.testing.assert_close(found, encoder(pack_lists([[5] * 38, [6] * 20])).cls_VNH, atol=1e-5, rtol=0)


@pytest.mark.parametrize("prompts", [0, 3])
@pytest.mark.parametrize("width", [16, 13])
def test_rows_of_a_mask_begin_where_the_kernels_want_them(prompts, width):
    packed = pack_lists([[5] * width, [5] * 4], groups=1)
    (mask,) = attention_masks(packed, 2, prompts, torch.bfloat16, 2, 16).of_groups
    assert mask is not None and mask.shape == (4, 1, 1, prompts + width) and mask.dtype == torch.bfloat16
    assert all(stride % 8 == 0 for stride in mask.stride()[:-1]) and mask.stride(-1) == 1
    assert mask[..., :prompts].eq(0).all() and mask.isneginf().sum() == 2 * (width - 4)
    assert attention_masks(pack_lists([[5] * width] * 2, groups=1), 2, prompts, torch.bfloat16, 2, 16).of_groups == [
        None
    ]


def masters(layer: Layer, frozen: tuple[str, ...]) -> dict[str, Tensor]:
    """Gradients of a layer that computes under autocast on the way of a card."""
    packed = pack_lists([[5, 6, 7], [8, 9]], groups=1)
    x_TH = torch.randn(6, 32, generator=torch.Generator().manual_seed(1))
    x = LayerStates(x_TH, x_TH)
    masks = attention_masks(packed, 1, 0, torch.bfloat16, 4, 8)
    layer.zero_grad()
    for name, parameter in layer.named_parameters():
        parameter.requires_grad_(name not in frozen)
    with torch.autocast("cpu", torch.bfloat16):
        for output in (layer(x, packed, 1, None, masks).full, layer.forward_cls(x, packed, 1, None, masks)):
            output.float().square().sum().backward()
    return {name: p.grad for name, p in layer.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("frozen", [(), ("inner.weight", "qkv.bias")])
def test_gradients_of_weights_cast_together_are_autocasts(config_of, monkeypatch, frozen):
    torch.manual_seed(0)
    layer = Layer(config_of("bert", 1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)).train()
    monkeypatch.setattr(numerics, "is_card", lambda device: True)
    together = masters(layer, frozen)
    monkeypatch.setattr(numerics, "cast_dtype", lambda device: None)
    alone = masters(layer, frozen)
    assert together.keys() == alone.keys() == {n for n, _ in layer.named_parameters()} - set(frozen)
    for name, gradient in alone.items():
        assert gradient.dtype == torch.float32 and torch.equal(together[name], gradient), name


def test_copies_of_frozen_weights_ask_for_no_gradient():
    layers = [torch.nn.Linear(3, 4).requires_grad_(False), torch.nn.Linear(4, 2)]
    (frozen, _), (weight, bias) = cast_together(layers, torch.bfloat16)
    assert not frozen.requires_grad and weight.requires_grad and bias.requires_grad
    assert weight.dtype == torch.bfloat16 and torch.equal(weight, layers[1].weight.bfloat16())
    weight.sum().backward()
    assert layers[1].weight.grad is not None and layers[1].bias.grad is None and layers[0].weight.grad is None
    with torch.no_grad():
        assert not cast_together(layers, torch.bfloat16)[1].weight.requires_grad


def kept_bytes(attend: Callable[..., Tensor], slots: Tensor, *rest: object) -> int:
    """Bytes that attention keeps for its gradient beside the slots it is given."""
    seen: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() != slots.untyped_storage().data_ptr():
            seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        mixed = attend(slots, *rest)
    mixed.sum().backward()
    return sum(seen.values())


def test_fused_attention_keeps_a_tenth_of_the_memory_at_512_tokens():
    rows, heads = 2, 12  # each row keeps as much as the other: 64 of them are 32 anchors in two views
    packed = pack_lists([list(range(512))] * rows, groups=1)
    slots = torch.randn(512 * rows, 3 * 64 * heads, generator=torch.Generator().manual_seed(1)).requires_grad_()
    masks = attention_masks(packed, 1, 0, slots.dtype, heads, 64)
    stored = kept_bytes(attend_packed, slots, packed, 1, heads, 0.0)
    fused = kept_bytes(attend_fused, slots, packed, 1, heads, 0.0, masks, None)
    assert stored > rows * heads * 512 * 512 * 4, "the scores of every head"
    assert 0 < fused < stored / 10
