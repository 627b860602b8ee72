"""ConSERT's own promises: what each augmentation changes at the embedding layer, which layers are pooled, refusals."""

import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from cse_train.encoder.backbone import Backbone, load_backbone
from cse_train.encoder.card import LayerStates
from cse_train.encoder.packing import pack_lists
from cse_train.fields import ConfigError
from cse_train.methods import consert
from cse_train.methods.base import Batch
from tests.cse_train.methods import parts
from tests.cse_train.packs import lists_of

NONE = {"augmentation_1": "none", "augmentation_2": "none"}


batch_of = partial(parts.batch_of, consert.ConSERT)


def kept_of(config: consert.Config, backbone: Backbone, batch: Batch) -> list[torch.Tensor]:
    """Bool [L, 1 or H] of each sequence."""
    torch.manual_seed(5)
    packed = batch.inputs["text"]
    kept_TH = consert.ConSERT.build(config, backbone)._choose_kept(packed, batch.tensors["kept_T"], batch.examples)
    rows = kept_TH[packed.attended_T()].split(packed.lengths_N.tolist())
    return [rows[i] for i in packed.order_N.argsort().tolist()]


def test_shuffling_permutes_the_positions_of_its_view_alone(backbone: Backbone, text_file: Path) -> None:
    batch = batch_of(consert.Config(), backbone, text_file)
    packed = batch.inputs["text"]
    positions, ids = lists_of(packed, packed.positions_T), lists_of(packed, packed.ids_T)
    assert ids[:6] == ids[6:] and positions[:6] == [list(range(len(row))) for row in ids[:6]]
    assert [sorted(row) for row in positions[6:]] == positions[:6] and positions[6:] != positions[:6]
    plain = pack_lists([np.array(row) for row in ids])
    assert torch.equal(packed.attended_T(), plain.attended_T()) and torch.equal(packed.ids_T, plain.ids_T)
    assert torch.equal(packed.positions_T[~packed.attended_T()], plain.positions_T[~plain.attended_T()])


def test_token_cutoff_takes_whole_tokens_of_its_view(backbone: Backbone, text_file: Path) -> None:
    config = consert.Config(augmentation_1="none", augmentation_2="token_cutoff", token_cutoff_rate=0.4)
    kept = kept_of(config, backbone, batch_of(config, backbone, text_file))
    assert all(row.all() for row in kept[:6])
    assert [int((~row).sum()) for row in kept[6:]] == [int(0.4 * len(row)) for row in kept[6:]]
    assert all(row.shape[1] == 1 for row in kept)


def test_feature_cutoff_takes_the_same_features_of_all_tokens(backbone: Backbone, text_file: Path) -> None:
    config = consert.Config()
    kept = kept_of(config, backbone, batch_of(config, backbone, text_file))
    assert all((row == row[0]).all() and int((~row[0]).sum()) == int(0.2 * 32) == 6 for row in kept[:6])
    assert all(row.all() for row in kept[6:])
    assert len({tuple(row[0].tolist()) for row in kept[:6]}) == 6


def test_dropout_takes_single_numbers(backbone: Backbone, text_file: Path) -> None:
    config = consert.Config(augmentation_1="dropout", dropout_rate=0.3)
    first = torch.cat(kept_of(config, backbone, batch_of(config, backbone, text_file))[:6])
    assert (~first).float().mean().item() == pytest.approx(0.3, abs=0.03)
    assert (first != first[0]).any() and not (first.all(0) | ~first.any(0)).all()


def test_both_views_may_be_cut_off_at_once(backbone: Backbone, text_file: Path) -> None:
    config = consert.Config(augmentation_1="token_cutoff", augmentation_2="feature_cutoff", token_cutoff_rate=0.4)
    kept = kept_of(config, backbone, batch_of(config, backbone, text_file))
    assert all((row.all(1) | ~row.any(1)).all() and not row.all() for row in kept[:6])
    assert all((row == row[0]).all() and not row.all() for row in kept[6:])


@pytest.mark.parametrize("kind", ["none", "shuffle", "token_cutoff", "feature_cutoff", "dropout"])
def test_every_augmentation_changes_its_view_and_no_other(backbone: Backbone, text_file: Path, kind: str) -> None:
    config = consert.Config(augmentation_1="none", augmentation_2=kind, token_cutoff_rate=0.4)
    batch, model = batch_of(config, backbone, text_file), consert.ConSERT.build(config, backbone).train()
    pooled = []
    model._pool = lambda *given: pooled.append(consert.ConSERT._pool(model, *given)) or pooled[-1]
    model(batch)
    one, two = pooled[0].split(6)
    rows = lists_of(batch.inputs["text"], batch.inputs["text"].ids_T)[:6]
    torch.testing.assert_close(one, model.dev_encodes()[0](pack_lists(rows)), atol=1e-5, rtol=1e-5)
    assert ((one - two).abs().amax(1) > 1e-3).all() == (kind != "none")


def test_the_test_averages_two_layers_and_training_and_the_dev_set_the_last_alone(backbone: Backbone) -> None:
    """The release trains, and picks, by its pooling layer, and averages two layers in eval.py alone."""
    ids = [[2, 9, 11, 3], [2, 30, 3]]
    states = [backbone.encoder.eval()(pack_lists([row]), layers=True).states_TH for row in ids]
    one, two = (torch.stack([torch.stack(of[-n:]).mean(0).mean(0) for of in states]) for n in (1, 2))
    for train_layers, picked in ((1, one), (None, two), (2, two)):
        model = consert.ConSERT.build(consert.Config(train_layers=train_layers), backbone).eval()
        torch.testing.assert_close(model.encode(pack_lists(ids)), two, atol=1e-5, rtol=1e-5)
        (encode,) = model.dev_encodes()
        torch.testing.assert_close(encode(pack_lists(ids)), picked, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("train_layers", "averaged"), [(1, 1), (None, 2)])
def test_loss_is_a_hand_loop_over_the_layers_of_training(
    backbone: Backbone, text_file: Path, train_layers: int | None, averaged: int
) -> None:
    """Equation 1, shuffled view 2: the encoder's layers by hand from moved positions."""
    config = consert.Config(augmentation_1="none", train_layers=train_layers)
    batch = batch_of(config, backbone, text_file)
    packed = batch.inputs["text"]
    encoder, vectors = backbone.encoder, []
    for ids, places in zip(lists_of(packed, packed.ids_T), lists_of(packed, packed.positions_T), strict=True):
        x_TH = encoder.word(torch.tensor(ids)) + encoder.position(torch.tensor(places)) + encoder.token_type.weight[0]
        states, whole = [encoder.embedding_norm(x_TH)], pack_lists([ids])
        for layer in encoder.layers:
            states.append(layer(LayerStates(states[-1], states[-1]), whole, 1).full)
        vectors.append(torch.stack(states[-averaged:]).mean(0).mean(0).double())
    total = 0.0
    for i in range(12):
        scores = [math.exp(F.cosine_similarity(vectors[i], v, dim=0).item() / 0.1) for v in vectors]
        total -= math.log(scores[(i + 6) % 12] / (sum(scores) - scores[i]))
    assert consert.ConSERT.build(config, backbone)(batch).loss.item() == pytest.approx(total / 12, rel=1e-4)


def test_more_layers_than_there_are_is_one_line(backbone: Backbone) -> None:
    consert.ConSERT.build(consert.Config(layers=3), backbone)
    with pytest.raises(
        ConfigError, match=r"^too many layers: method.layers=4, train.encoder=.* has 3, .* at most that$"
    ):
        consert.ConSERT.build(consert.Config(layers=4), backbone)
    with pytest.raises(ConfigError, match=r"^too many layers: method.train_layers=4, train.encoder=.* has 3, "):
        consert.ConSERT.build(consert.Config(train_layers=4), backbone)


def test_other_architectures_are_refused_where_embeddings_change(random_encoder) -> None:
    other = load_backbone(str(random_encoder("distilbert")))
    with pytest.raises(ConfigError, match=r"^unsupported encoder: .* is a distilbert, and method=consert changes what"):
        consert.ConSERT.build(consert.Config(), other)
    plain, ids = consert.ConSERT.build(consert.Config(**NONE), other).eval(), [2, 9, 11, 3]
    states = other.encoder(pack_lists([ids]), layers=True).states_TH
    expected = ((states[-1] + states[-2]) / 2).mean(0)
    torch.testing.assert_close(plain.encode(pack_lists([ids]))[0], expected, atol=1e-6, rtol=1e-5)


def test_the_factor_stands_before_clipping_and_epsilon(backbone: Backbone, text_file: Path) -> None:
    """The release's 0.3 multiplies every gradient; the loss that is told stays the paper's."""
    batch, told, gradients = batch_of(consert.Config(**NONE), backbone, text_file), [], []
    for factor in (1.0, 0.3):
        model = consert.ConSERT.build(consert.Config(loss_factor=factor, **NONE), backbone).eval()
        model.zero_grad()
        output = model(batch)
        output.loss.backward()
        told.append((output.loss.item(), output.metrics["loss"].item()))
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]).clone())
    (whole, metric), (scaled, same) = told
    assert whole == metric == same and scaled == pytest.approx(0.3 * whole, rel=1e-6)
    torch.testing.assert_close(gradients[1], 0.3 * gradients[0], rtol=1e-4, atol=1e-7)
