"""Weights in and out of transformers: exact to the bit."""

import pytest
import torch
from transformers import MODEL_FOR_MASKED_LM_MAPPING, BertModel

from cse_train.encoder.folders import PACKED_KINDS
from cse_train.encoder.packing import pack_lists
from cse_train.encoder.transformers_io import (
    encoder_from_transformers,
    encoder_to_transformers,
    export_masked_lm,
    head_from_transformers,
    head_to_transformers,
    take_packed,
)


@pytest.fixture(params=PACKED_KINDS)
def kind(request):
    return request.param


@pytest.fixture
def masked_lm(kind, config_of, stirred):
    """transformers' masked-LM model of each architecture."""
    config = config_of(kind, 2)
    model = MODEL_FOR_MASKED_LM_MAPPING[type(config)](config)
    stirred(model)
    return model.eval()


def test_round_trip_is_exact(kind, config_of, peer_of):
    peer = peer_of(config_of(kind))
    back = encoder_to_transformers(encoder_from_transformers(peer.state_dict(), peer.config))
    theirs = {name: t for name, t in peer.state_dict().items() if "position_ids" not in name}
    assert back.keys() == theirs.keys()
    assert all(torch.equal(back[name], theirs[name]) for name in theirs)


def test_export_loads_strictly(masked_lm):
    theirs = masked_lm.state_dict()
    encoder = encoder_from_transformers(theirs, masked_lm.config)
    head = head_from_transformers(theirs, masked_lm.config)
    exported = export_masked_lm(encoder, head)
    absent = set(theirs) - set(exported)
    assert all("decoder" in name or "position_ids" in name for name in absent)
    assert set(exported) <= set(theirs) and all(torch.equal(exported[name], theirs[name]) for name in exported)


def test_head_gives_transformers_logits(masked_lm, sentences, pad):
    theirs = masked_lm(**pad(sentences, masked_lm.config.pad_token_id)).logits
    encoder = encoder_from_transformers(masked_lm.state_dict(), masked_lm.config).eval()
    head = head_from_transformers(masked_lm.state_dict(), masked_lm.config)
    hidden = encoder(pack_lists(sentences, groups=1), tokens=True)
    packed = hidden.packed
    ours = head(hidden.last_TH[packed.attended_T()], encoder.word.weight)
    rows = [theirs[packed.order_N[row], :n] for row, n in enumerate(packed.lengths_N.tolist())]
    torch.testing.assert_close(ours, torch.cat(rows), atol=2e-5, rtol=0)


def test_head_round_trip(masked_lm):
    head = head_from_transformers(masked_lm.state_dict(), masked_lm.config)
    back = head_to_transformers(head, masked_lm.config)
    assert len(back) == 5
    assert all(torch.equal(t, masked_lm.state_dict()[name]) for name, t in back.items())


def test_a_model_saved_when_its_encoder_ran_through_automodel_has_our_names(kind, config_of, peer_of):
    peer = peer_of(config_of(kind))
    ours = encoder_from_transformers(peer.state_dict(), peer.config)
    model = torch.nn.ModuleDict({"encoder": ours, "top": torch.nn.Linear(2, 2)})
    before = {f"encoder.model.{name}": tensor for name, tensor in peer.state_dict().items()}
    taken = take_packed(model, before | model["top"].state_dict(prefix="top."))
    assert taken.keys() == model.state_dict().keys()
    assert all(torch.equal(tensor, taken[name]) for name, tensor in model.state_dict().items())
    assert take_packed(model, taken).keys() == taken.keys(), "what has our names already is as it was"


def test_no_head_without_its_tensors_or_with_an_untied_decoder(masked_lm, config_of):
    state = masked_lm.state_dict()
    body = {name: t for name, t in state.items() if name.startswith(masked_lm.base_model_prefix)}
    assert head_from_transformers(body, masked_lm.config) is None
    decoder = next(name for name in state if name.endswith("decoder.weight"))
    assert head_from_transformers(state | {decoder: state[decoder] + 1}, masked_lm.config) is None


def test_layer_norm_names_of_the_first_checkpoints(config_of, peer_of):
    peer = peer_of(config_of("bert", 1))
    rename = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    old = {}
    for name, tensor in peer.state_dict().items():
        for today, then in rename.items():
            name = name.replace(today, then)
        old[f"bert.{name}"] = tensor
    back = encoder_to_transformers(encoder_from_transformers(old, peer.config))
    fresh = BertModel(peer.config, add_pooling_layer=False)
    fresh.load_state_dict(back, strict=False)
    assert all(torch.equal(p, q) for p, q in zip(fresh.parameters(), peer.parameters(), strict=True))
