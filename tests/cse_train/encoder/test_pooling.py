"""Every pooler against transformers' `hidden_states` (reference_spec trap 1, T6, T7)."""

import pytest
import torch

from cse_train.encoder.packing import pack_lists
from cse_train.encoder.pooling import POOLERS, MlpProjector, SentencePooler, has_projector, needs_tokens, pool
from cse_train.encoder.transformers_io import encoder_from_transformers


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
