"""SG-OPT's own promises: guides of the fixed encoder, the distance from it, and what is trained."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from cse_train.encoder.backbone import load_backbone
from cse_train.encoder.packing import pack_lists
from cse_train.losses import self_guided
from cse_train.methods import sgopt
from cse_train.methods.base import Batch
from tests.cse_train.methods import parts

SMALL = {"projection_width": 24}
batch_of = partial(parts.batch_of, sgopt.SGOpt, sgopt.Config())


def moved(model: sgopt.SGOpt) -> sgopt.SGOpt:
    """The trained encoder, without its embeddings, 0.01 away from the fixed one everywhere."""
    with torch.no_grad():
        for parameter in model.encoder.layers.parameters():
            parameter.add_(0.01)
    return model


def by_hand(encoder, batch: Batch, pooled) -> torch.Tensor:
    """[6, 3, H]: the embedding output and both layers of one sentence at a time."""
    rows = batch.inputs["text"].unpacked(batch.inputs["text"].ids_T)
    states = [encoder(pack_lists([ids]), layers=True).states_TH for ids in rows]
    return torch.stack([torch.stack([pooled(state) for state in layers]) for layers in states])


@pytest.mark.parametrize(("guide", "pooled"), [("max", lambda x: x.amax(0)), ("mean", lambda x: x.mean(0))])
def test_guides_are_every_pooled_state_of_the_fixed_encoder(backbone, text_file, guide, pooled) -> None:
    model, batch = moved(sgopt.SGOpt.build(sgopt.Config(guide=guide, **SMALL), backbone)), batch_of(backbone, text_file)
    expected = by_hand(model.fixed, batch, pooled)
    torch.testing.assert_close(model._guides(batch), expected, atol=1e-5, rtol=1e-5)
    assert (model._guides(batch) - by_hand(model.encoder, batch, pooled)).abs().max() > 1e-3


@pytest.mark.parametrize("objective", ["base", "opt1", "opt2"])
def test_one_guide_is_drawn_uniformly_for_each_text(backbone, text_file, objective) -> None:
    model = sgopt.SGOpt.build(sgopt.Config(objective=objective, **SMALL), backbone)
    every = sgopt.SGOpt.build(sgopt.Config(**SMALL), backbone)._guides(batch_of(backbone, text_file))
    counts = np.zeros(3)
    for seed in range(60):
        drawn = model._guides(batch_of(backbone, text_file, seed))
        assert drawn.shape == (6, 1, 32)
        counts += (drawn == every).all(-1).sum(0).numpy()
    assert counts.sum() == 360 and counts.min() > 90


@pytest.mark.parametrize("objective", ["base", "opt1", "opt2", "opt3"])
def test_loss_is_the_projected_objective_and_the_distance(backbone, text_file, objective) -> None:
    config = sgopt.Config(objective=objective, lambda_weight=0.3, temperature=0.05, **SMALL)
    model, batch = moved(sgopt.SGOpt.build(config, backbone)), batch_of(backbone, text_file)
    rows = batch.inputs["text"].unpacked(batch.inputs["text"].ids_T)
    c = torch.stack([model.encoder(pack_lists([ids]), tokens=True).last_TH[0] for ids in rows])
    h = by_hand(model.fixed, batch, lambda x: x.amax(0))
    if objective != "opt3":
        h = h[torch.arange(6), (batch.tensors["place_B"] * 3).long()][:, None]
    contrastive = self_guided(model.projection(c), model.projection(h), 0.05, objective, every_negative=False)
    distance = 0.01**2 * sum(p.numel() for p in model.encoder.layers.parameters())
    output = model(batch)
    assert output.metrics["squared_distance"].item() == pytest.approx(distance, rel=1e-3)
    assert output.metrics["loss_contrastive"].item() == pytest.approx(contrastive.item(), rel=1e-4)
    assert output.loss.item() == pytest.approx(contrastive.item() + 0.3 * distance, rel=1e-4)


def test_the_distance_pulls_every_trained_weight_back(backbone) -> None:
    model = moved(sgopt.SGOpt.build(sgopt.Config(**SMALL), backbone))
    model.distance().backward()
    assert all(torch.allclose(p.grad, torch.full_like(p, 0.02), atol=1e-6) for p in model.encoder.layers.parameters())


@pytest.mark.parametrize("train_embeddings", [False, True])
def test_the_embedding_layer_is_frozen_as_released(backbone, train_embeddings) -> None:
    model = sgopt.SGOpt.build(sgopt.Config(train_embeddings=train_embeddings, **SMALL), backbone)
    trained = {name.split(".")[0] for name, p in model.encoder.named_parameters() if p.requires_grad}
    embeddings = {"word", "position", "token_type", "embedding_norm"}
    assert trained == ({"layers"} | embeddings if train_embeddings else {"layers"})
    assert not any(p.requires_grad for p in model.fixed.parameters())


def test_the_projection_has_two_layers_with_a_gelu_each(backbone) -> None:
    model = sgopt.SGOpt.build(sgopt.Config(), backbone)
    shapes = [tuple(p.shape) for p in model.projection.parameters()]
    assert shapes == [(4096, 32), (4096,), (4096, 4096), (4096,)]
    assert model.projection[0].weight.std().item() == pytest.approx(0.02, rel=0.02)
    x = torch.randn(3, 32, generator=torch.Generator().manual_seed(1))
    inner = torch.nn.functional.gelu(x @ model.projection[0].weight.T)
    expected = torch.nn.functional.gelu(inner @ model.projection[2].weight.T)
    torch.testing.assert_close(model.projection(x), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("guide_dropout", [True, False])
def test_the_fixed_encoder_drops_out_in_training_as_released_or_never(
    tiny_encoder: Path, text_file: Path, guide_dropout: bool
) -> None:
    backbone = load_backbone(str(tiny_encoder), dropout=0.1)
    config, batch = sgopt.Config(guide_dropout=guide_dropout, **SMALL), batch_of(backbone, text_file)
    model = sgopt.SGOpt.build(config, backbone).train()
    assert torch.equal(model._guides(batch), model._guides(batch)) != guide_dropout
    assert not torch.equal(model.encode(batch.inputs["text"]), model.encode(batch.inputs["text"]))
    assert torch.equal(model.eval()._guides(batch), model._guides(batch))


def test_other_architectures_train_too(random_encoder, text_file: Path) -> None:
    backbone = load_backbone(str(random_encoder("distilbert")))
    model = sgopt.SGOpt.build(sgopt.Config(**SMALL), backbone).train()
    model(batch_of(backbone, text_file)).loss.backward()
    graded = {name for name, p in model.encoder.named_parameters() if p.grad is not None}
    assert graded and not any("embeddings" in name for name in graded)
    assert model._guides(batch_of(backbone, text_file)).shape == (6, 4, 32)
