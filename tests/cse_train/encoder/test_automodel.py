"""Encoders of other architectures are read as they were made; transformers is the oracle."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModel

from cse_train import distributed
from cse_train.encoder.automodel import AutoModelEncoder
from cse_train.encoder.backbone import load_backbone, own_encoder
from cse_train.encoder.folders import content_hash, earlier_hash, files_hash
from cse_train.encoder.packing import pack_lists
from cse_train.fields import ConfigError
from tests.cse_train.encoders import Make, maker

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
