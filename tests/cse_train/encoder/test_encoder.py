"""The packed encoder against transformers' models of each kind (T5, T6), and other architectures as they were made."""

import copy
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from transformers import AutoModel

from cse_train import distributed
from cse_train.encoder.attention import attend_packed
from cse_train.encoder.automodel import AutoModelEncoder
from cse_train.encoder.backbone import load_backbone, own_encoder
from cse_train.encoder.card_attention import Masks, attend_fused
from cse_train.encoder.encoder import Encoder
from cse_train.encoder.folders import PACKED_KINDS, content_hash, earlier_hash, files_hash, find_unsupported
from cse_train.encoder.ops import dropout
from cse_train.encoder.packing import pack_lists
from cse_train.encoder.transformers_io import encoder_from_transformers, encoder_to_transformers
from cse_train.fields import ConfigError
from tests.cse_train.encoders import Make, maker


@pytest.fixture(params=PACKED_KINDS)
def kind(request):
    return request.param


@pytest.fixture(params=[1, 3])
def pair(request, kind, config_of, peer_of):
    """Ours and transformers' model with the same weights, both in eval mode, for every kind and two depths."""
    peer = peer_of(config_of(kind, request.param))
    return encoder_from_transformers(peer.state_dict(), peer.config).eval(), peer


@pytest.mark.parametrize("groups", [1, 4])
def test_equal_in_eval_on_ragged_batches(pair, sentences, pad, groups):
    ours, peer = pair
    theirs = peer(**pad(sentences, peer.config.pad_token_id)).last_hidden_state
    packed = pack_lists(sentences, groups=groups)
    hidden = ours(packed, tokens=True)
    torch.testing.assert_close(hidden.cls_VNH[0], theirs[:, 0], atol=1e-5, rtol=0)
    rows = [theirs[packed.order_N[row], :n] for row, n in enumerate(packed.lengths_N.tolist())]
    torch.testing.assert_close(hidden.last_TH[packed.attended_T()], torch.cat(rows), atol=1e-5, rtol=0)


def test_cls_only_equals_the_full_last_layer(pair, sentences):
    ours, _ = pair
    packed = pack_lists(sentences)
    short, full = ours(packed), ours(packed, tokens=True)
    torch.testing.assert_close(short.cls_VNH, full.cls_VNH, atol=1e-5, rtol=0)
    assert short.last_TH is None and short.embedding_TH is None


@pytest.mark.parametrize("tokens", [False, True])
def test_gradients_equal_transformers(pair, sentences, pad, tokens):
    ours, peer = pair
    batch = pad(sentences, peer.config.pad_token_id)
    weights = torch.randn(*batch["input_ids"].shape, ours.width, generator=torch.Generator().manual_seed(3))
    theirs = peer(**batch).last_hidden_state
    real = batch["attention_mask"][..., None]
    (torch.tanh(theirs * real * weights).sum() if tokens else torch.tanh(theirs[:, 0] * weights[:, 0]).sum()).backward()
    packed = pack_lists(sentences)
    hidden = ours(packed, tokens=tokens)
    if tokens:
        rows = [weights[packed.order_N[row], :n] for row, n in enumerate(packed.lengths_N.tolist())]
        loss = torch.tanh(hidden.last_TH[packed.attended_T()] * torch.cat(rows)).sum()
    else:
        loss = torch.tanh(hidden.cls_VNH[0] * weights[:, 0]).sum()
    loss.backward()
    for name, gradient in gradients_as_transformers(ours).items():
        expected = dict(peer.named_parameters())[name].grad
        zero = 1e-6 if name.endswith("key.bias") else 0.0  # softmax ignores it: both gradients are rounding
        assert (gradient - expected).abs().max() <= 5e-5 * expected.abs().max() + zero, name
        assert (gradient - expected).norm() <= 1e-5 * expected.norm() + zero, name


def gradients_as_transformers(encoder: Encoder) -> dict[str, torch.Tensor]:
    holder = copy.deepcopy(encoder)
    holder.load_state_dict({name: parameter.grad for name, parameter in encoder.named_parameters()})
    return encoder_to_transformers(holder)


def test_train_mode_draws_the_same_dropout_as_transformers(pair, monkeypatch):
    """One rectangular group, one view, one seed: every dropout stands where transformers' stands, with its rate."""
    ours, peer = pair
    monkeypatch.setattr(F, "dropout", lambda x, p=0.5, training=True, inplace=False: dropout(x, p, training))
    ids = torch.arange(5, 5 + 6 * 9).view(6, 9)
    torch.manual_seed(5)
    theirs = peer.train()(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
    torch.manual_seed(5)
    hidden = ours.train()(pack_lists(ids.tolist(), groups=1), tokens=True)
    torch.testing.assert_close(hidden.last_TH.view_as(theirs), theirs, atol=1e-5, rtol=0)


@pytest.mark.parametrize("tokens", [False, True])
def test_padding_invariance(pair, sentences, tokens):
    """T6: a sentence alone equals the same sentence between longer ones."""
    ours, _ = pair
    together = ours(pack_lists(sentences, groups=1), tokens=tokens)
    for row, sentence in enumerate(sentences):
        alone = ours(pack_lists([sentence]), tokens=tokens)
        torch.testing.assert_close(together.cls_VNH[0, row], alone.cls_VNH[0, 0], atol=1e-5, rtol=0)
        if tokens:
            mean = together.mean_VNH(together.last_TH)[0, row]
            torch.testing.assert_close(mean, alone.last_TH.mean(0), atol=1e-5, rtol=0)


@pytest.mark.parametrize("tokens", [False, True])
def test_views_differ_in_train_and_are_equal_in_eval(pair, sentences, tokens):
    """T5; and each view in eval equals the single one."""
    ours, _ = pair
    packed = pack_lists(sentences)
    first, second = ours(packed, views=2, tokens=tokens).cls_VNH
    assert torch.equal(first, second)
    torch.testing.assert_close(first, ours(packed, tokens=tokens).cls_VNH[0], atol=1e-6, rtol=0)
    first, second = ours.train()(packed, views=2, tokens=tokens).cls_VNH
    assert (first - second).abs().amax(1).min() > 1e-3


@pytest.mark.parametrize("way", ["CPU", "card"])
def test_attention_dropout_acts_on_the_probabilities(way):
    """T5: values = identity makes the attention output the dropped probabilities themselves."""
    rate, width = 0.4, 64
    packed = pack_lists([list(range(width))] * 8, groups=1)
    eye = torch.eye(width).repeat(8, 4)
    qkv = torch.cat([torch.zeros(8 * width, 2 * 4 * width), eye], 1)
    ways = {
        "CPU": lambda rate: attend_packed(qkv, packed, 1, 4, rate),
        "card": lambda rate: attend_fused(qkv, packed, 1, 4, rate, Masks([None]), None),
    }
    dropped, kept = ways[way](rate), ways[way](0.0)
    assert abs((dropped == 0).float().mean() - rate) < 0.01
    share = 1 / width / (1 - rate)
    torch.testing.assert_close(dropped[dropped > 0], torch.full_like(dropped[dropped > 0], share), rtol=1e-4, atol=0)
    torch.testing.assert_close(kept, torch.full_like(kept, 1 / width))


def test_attention_dropout_alone_separates_the_views(config_of, sentences):
    encoder = Encoder(config_of("bert", 2, hidden_dropout_prob=0.0)).train()
    encoder.initialise(torch.Generator().manual_seed(0))
    first, second = encoder(pack_lists(sentences), views=2).cls_VNH
    assert (first - second).abs().amax(1).min() > 0


def test_more_than_two_views_keep_batch_order(pair, sentences):
    ours, _ = pair
    hidden = ours(pack_lists(sentences), views=3, tokens=True)
    single = ours(pack_lists(sentences), tokens=True)
    means = hidden.mean_VNH(hidden.last_TH)
    assert means.shape == (3, len(sentences), ours.width)
    torch.testing.assert_close(means, single.mean_VNH(single.last_TH).expand_as(means), atol=1e-6, rtol=0)


def test_a_sentence_beyond_the_positions_is_named(kind, config_of):
    config = config_of(kind, 1)
    room = 40 if kind == "bert" else 38
    encoder = Encoder(config)
    encoder(pack_lists([[5] * room]))
    with pytest.raises(ValueError, match=rf"length={room + 1} exceeds its {room} positions"):
        encoder(pack_lists([[5] * (room + 1)]))


def test_architectures_that_would_be_inexact_are_refused(config_of):
    assert find_unsupported(config_of("bert", 1)) is None
    assert "hidden_act=relu" in str(find_unsupported(config_of("bert", 1, hidden_act="relu")))
    with pytest.raises(ValueError, match="position_embedding_type=relative_key"):
        Encoder(config_of("bert", 1, position_embedding_type="relative_key"))


def test_initialise_is_bert_and_depends_on_the_generator_alone(config_of):
    def drawn(seed: int) -> Encoder:
        encoder = Encoder(config_of("bert", 2))
        encoder.initialise(torch.Generator().manual_seed(seed))
        return encoder

    first, again, other = drawn(1), drawn(1), drawn(2)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    assert not torch.equal(first.word.weight, other.word.weight)
    assert abs(first.word.weight.std().item() - 0.02) < 1e-3
    assert first.layers[0].qkv.bias.eq(0).all() and first.embedding_norm.weight.eq(1).all()


def test_masked_mean_against_a_loop(pair, sentences):
    """T7: [CLS] and [SEP] count, padding does not."""
    ours, _ = pair
    packed = pack_lists(sentences, groups=2)
    hidden = ours(packed, tokens=True)
    vectors = iter(hidden.last_TH)
    expected = torch.empty(len(sentences), ours.width)
    for group, rows in zip(packed.groups, packed.order_N.split([g.rows for g in packed.groups]), strict=True):
        for row in rows.tolist():
            slots = [next(vectors) for _ in range(group.width)][: len(sentences[row])]
            expected[row] = sum(slots) / len(slots)
    torch.testing.assert_close(hidden.mean_VNH(hidden.last_TH)[0], expected, atol=1e-6, rtol=0)
    assert F.cosine_similarity(expected, hidden.cls_VNH[0]).max() < 0.999


SENTENCES = [[2, 7, 9, 11, 3], [2, 8, 3], [2, 20, 9, 13, 14, 21, 3]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Make:
    return maker(tmp_path_factory.mktemp("encoders"))


def largest_difference(folder: Path, pad: int = 0) -> float:
    """Between our last layer and transformers', over the attended tokens of a padded batch."""
    packed = pack_lists(SENTENCES)
    with torch.no_grad():
        ours = load_backbone(str(folder)).encoder.eval()(packed, tokens=True)
        width = max(map(len, SENTENCES))
        ids = torch.tensor([ids + [pad] * (width - len(ids)) for ids in SENTENCES])
        mask = torch.tensor([[1] * len(ids) + [0] * (width - len(ids)) for ids in SENTENCES])
        theirs = AutoModel.from_pretrained(folder).eval()(input_ids=ids, attention_mask=mask).last_hidden_state
    assert ours.last_TH is not None
    rows = [theirs[packed.order_N[row], :n] for row, n in enumerate(packed.lengths_N.tolist())]
    return float((ours.last_TH[packed.attended_T()] - torch.cat(rows)).abs().max())


@pytest.mark.parametrize("is_decoder", [False, True])
@pytest.mark.parametrize("kind", ["bert", "roberta", "xlm-roberta", "electra"])
def test_a_decoder_attends_causally_as_in_transformers(made, kind, is_decoder):
    pad = 1 if "roberta" in kind else 0
    folder = made(kind, is_decoder=is_decoder, pad_token_id=pad)
    assert largest_difference(folder, pad) < 1e-5
    with torch.no_grad():
        encoder = load_backbone(str(folder)).encoder.eval()
        one, two = encoder(pack_lists([[2, 7, 9, 3], [2, 7, 8, 3]], groups=1)).cls_VNH[0]
    assert torch.equal(one, two) == is_decoder, "position 0 of a causal encoder sees itself alone"


@pytest.mark.parametrize("kind", ["electra", "distilbert"])
def test_widths_that_a_card_rounds_up_need_no_positions(made, monkeypatch, kind):
    """Seven tokens in eight slots, of an encoder that has seven positions."""
    encoder = load_backbone(str(made(kind, max_position_embeddings=7))).encoder.eval()
    with torch.no_grad():
        exact = [encoder(pack_lists(SENTENCES, groups=1), tokens=True) for _ in range(2)]
        monkeypatch.setattr(distributed, "has_card", lambda: True)
        rounded = encoder(pack_lists(SENTENCES), views=2, tokens=True)
    assert [group.width for group in rounded.packed.groups] == [8]
    for one, other in zip(exact, rounded.mean_VNH(rounded.last_TH), strict=True):
        torch.testing.assert_close(other, one.mean_VNH(one.last_TH)[0])
    torch.testing.assert_close(rounded.cls_VNH[1], exact[0].cls_VNH[0])


def test_a_decoder_is_another_encoder_for_signatures(made):
    both, causal = made("bert"), made("bert", is_decoder=True)
    assert load_backbone(str(causal)).content_hash == content_hash(causal)
    (causal / "config.json").write_bytes((both / "config.json").read_bytes())
    assert content_hash(both) == content_hash(causal)
    (both / "config.json").write_text(
        (both / "config.json").read_text().replace('"is_decoder": false', '"is_decoder": true')
    )
    assert content_hash(both) != content_hash(causal)


def test_a_kind_that_our_encoder_took_over_has_another_hash_than_before_and_tells_that_one(made):
    folder = made("xlm-roberta", pad_token_id=1)
    assert earlier_hash(folder) == files_hash([folder / "config.json", folder / "model.safetensors"])
    assert content_hash(folder) == load_backbone(str(folder)).content_hash != earlier_hash(folder)
    for changed in ({"is_decoder": True}, {"hidden_act": "relu"}):
        other = made("xlm-roberta", pad_token_id=1, **changed)
        assert isinstance(load_backbone(str(other)).encoder, AutoModelEncoder) and earlier_hash(other) is None
        assert content_hash(other) == files_hash([other / "config.json", other / "model.safetensors"])
    assert [earlier_hash(made(kind)) for kind in ("bert", "roberta", "electra")] == [None] * 3


def test_what_needs_our_own_encoder_names_the_decoder(made):
    backbone = load_backbone(str(made("bert", is_decoder=True)))
    assert isinstance(backbone.encoder, AutoModelEncoder)
    with pytest.raises(ConfigError, match=r"is a bert with is_decoder=True, and why; choose a BERT or RoBERTa model$"):
        own_encoder(backbone, "why")


def test_positions_are_counted_as_the_architecture_counts_them(made):
    for kind, pad, offset in (("xlm-roberta", 1, 2), ("mpnet", 1, 2), ("electra", 0, 0), ("gpt2", 0, 0), ("opt", 1, 0)):
        encoder = load_backbone(str(made(kind, pad_token_id=pad))).encoder
        assert encoder.position_offset == offset, kind
