"""Prompts, a replaced [CLS] word and a conditioned [CLS] against a loop that computes one sentence at a time."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from cse_train.encoder.backbone import own_encoder
from cse_train.encoder.encoder import Encoder, Layer
from cse_train.encoder.packing import pack_lists
from cse_train.encoder.transformers_io import encoder_from_transformers
from cse_train.fields import ConfigError
from cse_train.numerics import fast_fp32, multiplies_bf16


class FixedPrompts:
    """The same keys and values for every row."""

    def __init__(self, encoder: Encoder, length: int, shift: bool) -> None:
        self.length, self.shift = length, shift
        shape = (len(encoder.layers), 2, 4, length, encoder.width // 4)
        self.table = torch.randn(shape, generator=torch.Generator().manual_seed(5))

    def keys_values(self, layer: int, rows: int) -> tuple[Tensor, Tensor]:
        key, value = (part.expand(rows, *part.shape) for part in self.table[layer])
        return key, value


@pytest.fixture
def encoder(kind, config_of, peer_of) -> Encoder:
    peer = peer_of(config_of(kind, 3))
    return encoder_from_transformers(peer.state_dict(), peer.config).eval()


def layer_by_hand(layer: Layer, x_TH: Tensor, prefix: tuple[Tensor, Tensor] | None) -> Tensor:
    """One sentence through one layer, head by head and token by token."""
    query, key, value = layer.qkv(x_TH).chunk(3, -1)
    head = x_TH.shape[1] // layer.heads
    rows = []
    for t in range(len(x_TH)):
        mixed = []
        for h in range(layer.heads):
            at = slice(h * head, (h + 1) * head)
            keys, values = key[:, at], value[:, at]
            if prefix is not None:
                keys, values = torch.cat([prefix[0][0, h], keys]), torch.cat([prefix[1][0, h], values])
            mixed.append(torch.softmax(keys @ query[t, at] / math.sqrt(head), 0) @ values)
        rows.append(torch.cat(mixed))
    x_TH = layer.attention_norm(layer.attention_out(torch.stack(rows)) + x_TH)
    return layer.output_norm(layer.outer(F.gelu(layer.inner(x_TH))) + x_TH)


def by_hand(encoder, ids, prompts=None, cls_word=None, cls_output=None, kept=None) -> Tensor:
    """Last layer [T, H] of one sentence."""
    words = encoder.word(torch.tensor(ids))
    if cls_word is not None:
        words = torch.cat([cls_word[None], words[1:]])
    shift = prompts.length if prompts and prompts.shift else 0
    places = torch.arange(len(ids)) + encoder.position_offset + shift
    x_TH = encoder.embedding_norm(words + encoder.position(places) + encoder.token_type.weight[0])
    if cls_output is not None:
        x_TH = torch.cat([cls_output[None], x_TH[1:]])
    if kept is not None:
        x_TH = x_TH * kept
    for index, layer in enumerate(encoder.layers):
        x_TH = layer_by_hand(layer, x_TH, prompts.keys_values(index, 1) if prompts else None)
    return x_TH


@pytest.mark.parametrize("views", [1, 2])
@pytest.mark.parametrize("shift", [False, True])
def test_t20_prompts_equal_a_loop(encoder, sentences, views, shift):
    prompts, packed = FixedPrompts(encoder, 5, shift), pack_lists(sentences)
    expected = torch.stack([by_hand(encoder, ids, prompts)[0] for ids in sentences])
    for tokens in (False, True):
        hidden = encoder(packed, views=views, tokens=tokens, prompts=prompts)
        for view in hidden.cls_VNH:
            torch.testing.assert_close(view, expected, atol=1e-5, rtol=1e-5)
    last = hidden.last_TH
    assert last is not None and len(last) == views * len(packed.ids_T), "prompts are not in the output"
    plain = encoder(packed).cls_VNH[0]
    assert (plain - expected).abs().max() > 0.01, "the output depends on the prompts"


@pytest.mark.parametrize("shift", [False, True])
def test_t20_no_prompts_equal_the_plain_encoder(encoder, sentences, shift):
    packed = pack_lists(sentences)
    prompted, plain = encoder(packed, prompts=FixedPrompts(encoder, 0, shift)), encoder(packed)
    torch.testing.assert_close(prompted.cls_VNH, plain.cls_VNH, atol=2e-6, rtol=0)


def test_t20_prompts_need_room_only_where_they_shift(encoder, sentences):
    packed = pack_lists(sentences)
    encoder(packed, prompts=FixedPrompts(encoder, 20, shift=False))
    with pytest.raises(ValueError, match="length=30 exceeds its"):
        encoder(packed, prompts=FixedPrompts(encoder, 20, shift=True))


def test_gradient_reaches_the_prompts_of_every_layer(encoder, sentences):
    prompts = FixedPrompts(encoder, 3, shift=True)
    prompts.table.requires_grad_()
    encoder(pack_lists(sentences), prompts=prompts).cls_VNH.square().sum().backward()
    assert all(layer.abs().max() > 0 for layer in prompts.table.grad)


def test_a_replaced_cls_word_equals_a_loop(encoder, sentences):
    word = torch.randn(encoder.width, generator=torch.Generator().manual_seed(6))
    expected = torch.stack([by_hand(encoder, ids, cls_word=word)[0] for ids in sentences])
    torch.testing.assert_close(encoder(pack_lists(sentences), cls_word_H=word).cls_VNH[0], expected, atol=1e-5, rtol=0)
    own = encoder.word.weight[2].detach()
    same = encoder(pack_lists(sentences), cls_word_H=own).cls_VNH
    torch.testing.assert_close(same, encoder(pack_lists(sentences)).cls_VNH, atol=1e-6, rtol=0)


@pytest.mark.parametrize("groups", [1, 4])
def test_t13_a_conditioned_cls_equals_a_loop(encoder, sentences, groups):
    """Each sequence gets its own vector, in batch order, without position, type or LayerNorm."""
    given = torch.randn(len(sentences), encoder.width, generator=torch.Generator().manual_seed(7))
    expected = [by_hand(encoder, ids, cls_output=h) for ids, h in zip(sentences, given, strict=True)]
    packed = pack_lists(sentences, groups=groups)
    hidden = encoder(packed, tokens=True, cls_output_NH=given)
    torch.testing.assert_close(hidden.cls_VNH[0], torch.stack([x[0] for x in expected]), atol=1e-5, rtol=0)
    rows = torch.cat([expected[i] for i in packed.order_N])
    torch.testing.assert_close(hidden.last_TH[packed.attended_T()], rows, atol=1e-5, rtol=0)


@pytest.mark.parametrize("wide", [False, True])
def test_a_masked_embedding_output_equals_a_loop(encoder, sentences, wide):
    """Whole slots, or single numbers of them, are zero after LayerNorm; padding stays out of every sentence."""
    packed = pack_lists(sentences, groups=4)
    slots, width = len(packed.ids_T), encoder.width if wide else 1
    kept_TH = torch.rand(slots, width, generator=torch.Generator().manual_seed(8)) > 0.3
    rows = torch.nonzero(packed.attended_T()).squeeze(1).split(packed.lengths_N.tolist())
    hidden = encoder(packed, tokens=True, kept_TH=kept_TH)
    for slots_of_row, index in zip(rows, packed.order_N.tolist(), strict=True):
        expected = by_hand(encoder, sentences[index], kept=kept_TH[slots_of_row])
        torch.testing.assert_close(hidden.last_TH[slots_of_row], expected, atol=1e-5, rtol=0)


def test_every_layer_s_state_is_transformers_s(kind, config_of, peer_of, sentences, pad):
    peer = peer_of(config_of(kind, 3))
    theirs = peer(**pad(sentences, peer.config.pad_token_id), output_hidden_states=True).hidden_states
    packed = pack_lists(sentences)
    encoder = encoder_from_transformers(peer.state_dict(), peer.config).eval()
    hidden = encoder(packed, layers=True)
    assert len(hidden.states_TH) == len(theirs) == 4
    for ours, layer in zip(hidden.states_TH, theirs, strict=True):
        rows = [layer[packed.order_N[row], :n] for row, n in enumerate(packed.lengths_N.tolist())]
        torch.testing.assert_close(ours[packed.attended_T()], torch.cat(rows), atol=1e-5, rtol=0)
    assert hidden.states_TH[-1] is hidden.last_TH and hidden.states_TH[1] is hidden.layer1_TH
    assert encoder(packed, tokens=True).states_TH == ()


def test_only_our_encoder_takes_prompts():
    class Other:
        name, encoder = "distilbert-base-uncased", object()
        config = type("Config", (), {"model_type": "distilbert"})

    other = Other()
    with pytest.raises(ConfigError) as refused:
        own_encoder(other, "prompts need one of ours")  # type: ignore[arg-type]
    (line,) = refused.value.problems
    assert line == (
        "unsupported encoder: train.encoder=distilbert-base-uncased is a distilbert, and prompts need one of ours; "
        "choose a BERT or RoBERTa model"
    )


@pytest.mark.skipif(not multiplies_bf16(), reason="this CPU does not multiply in bf16")
@pytest.mark.parametrize("kind", ["bert"])
@pytest.mark.parametrize("tokens", [False, True])
@pytest.mark.parametrize("prompts", [False, True])
def test_a_cpu_in_bf16_comes_near_fp32_in_value_and_gradient(encoder: Encoder, tokens: bool, prompts: bool) -> None:
    """Products in bf16 and all else in fp32 meet in one layer there."""
    given = FixedPrompts(encoder, 2, shift=True) if prompts else None
    packed = pack_lists([[2, 5, 6, 3], [2, 7, 3], [2, 8, 9, 10, 11, 3]], groups=2)
    found = []
    for bf16 in (False, True):
        encoder.zero_grad()
        with fast_fp32(), torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            cls_VNH = encoder(packed, views=2, tokens=tokens, prompts=given).cls_VNH
        weight = torch.randn(cls_VNH.shape, generator=torch.Generator().manual_seed(8))
        (cls_VNH.float() * weight).sum().backward()
        grad = encoder.layers[-1].qkv.weight.grad
        assert grad is not None and torch.isfinite(grad).all()
        found.append((cls_VNH.detach().float(), grad.clone()))
    for fp32, half in zip(*found, strict=True):
        assert (fp32 - half).norm() < 0.05 * fp32.norm()
        assert not torch.equal(fp32, half)
