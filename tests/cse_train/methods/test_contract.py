"""What every method must hold to; runs over `methods.names()`, so a new method is tested by being there."""

import dataclasses
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from cse_train import checkpoint, methods, random_streams
from cse_train.backbone.backbone import Backbone, load_backbone
from cse_train.config import RunConfig, parse_run
from cse_train.data_paths import DataPaths
from cse_train.encoder.encoder import Encoder
from cse_train.encoder.packing import pack_lists
from cse_train.methods.base import Batch, Share
from cse_train.training.batches import Batches
from cse_train.training.optimiser import optimiser_of

METHODS = methods.names()


@pytest.fixture
def parts(tiny_settings: Callable[..., dict], tiny_paths: Callable[[str], DataPaths]):
    """Method name -> (run, backbone, model in training mode, a batch of 8, a function that collates it again)."""

    def build(method: str):
        run = parse_run(tiny_settings(method))
        backbone = load_backbone(run.train.encoder)
        batches = Batches.open(run, tiny_paths(method), backbone)
        rows = batches.rows[:8]
        share = Share(batches.store, rows, rows, partial(random_streams.augmentation, 0, 0))
        again = partial(batches.collate, share)
        random_streams.seed_new_weights(0)
        return run, backbone, methods.load(method).build(run.options, backbone).train(), again(), again

    return build


def step(run: RunConfig, model: torch.nn.Module, batch: Batch, index: int) -> float:
    random_streams.seed_dropout(run.train.seed, index, 0)
    output = model(batch)
    assert output.loss.requires_grad == bool(trainable_of(model)), "fitted or trained"
    if output.loss.requires_grad:
        output.loss.backward()
    return output.loss.item()


def trainable_of(model: torch.nn.Module) -> dict[str, torch.nn.Parameter]:
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def sentences(backbone: Backbone) -> list[list[int]]:
    texts = ["the old bridge", "winter music in the garden near the river", "glass"]
    return backbone.tokenizer(texts)["input_ids"]


@pytest.mark.parametrize("method", METHODS)
def test_exports_the_contract(method: str) -> None:
    module = methods.load(method)
    assert isinstance(module.VERSION, int)
    assert module.Config.__dataclass_params__.frozen
    assert all(field.kw_only for field in dataclasses.fields(module.Config))


@pytest.mark.parametrize("method", METHODS)
def test_gradient_reaches_what_trains_and_nothing_else(method: str, parts) -> None:
    run, _, model, batch, _ = parts(method)
    frozen = {n: p.clone() for n, p in model.named_parameters() if not p.requires_grad and "momentum" not in n}
    begun = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    optimiser = optimiser_of(model, run.train)
    for index in range(10):
        assert np.isfinite(step(run, model, batch, index))
        if index == 0:
            assert not [name for name, parameter in trainable_of(model).items() if parameter.grad is None]
        optimiser.step()
        optimiser.zero_grad()
    assert all(torch.equal(dict(model.named_parameters())[n], value) for n, value in frozen.items())
    assert not all(torch.equal(tensor, begun[name]) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize("method", METHODS)
def test_same_seed_same_loss_and_batch(method: str, parts) -> None:
    run, _, model, batch, again = parts(method)
    _, _, twin, _, _ = parts(method)
    assert step(run, model, batch, 0) == step(run, twin, again(), 0)
    draws = any(module.training for module in model.modules() if isinstance(module, Encoder))
    assert (step(run, model, batch, 1) != step(run, twin, batch, 2)) == draws, "dropout where an encoder trains"


@pytest.mark.parametrize("method", METHODS)
def test_saved_and_loaded_gives_the_same_embeddings(method: str, parts, tmp_path: Path) -> None:
    run, backbone, model, batch, _ = parts(method)
    optimiser = optimiser_of(model, run.train)
    step(run, model, batch, 0)
    optimiser.step()
    checkpoint.save_best(tmp_path, run, model, {"best": 1.0})
    _, loaded, _ = checkpoint.load_model(tmp_path)
    packed = pack_lists(sentences(backbone))
    with torch.no_grad():
        assert torch.equal(loaded.encode(packed), model.eval().encode(packed))


@pytest.mark.parametrize("method", METHODS)
def test_encode_is_one_vector_a_sentence_whatever_the_padding(method: str, parts) -> None:
    _, backbone, model, _, _ = parts(method)
    model.eval()
    rows = sentences(backbone)
    with torch.no_grad():
        together = model.encode(pack_lists(rows, groups=1))
        alone = torch.cat([model.encode(pack_lists([row])) for row in rows])
    assert together.shape == (3, getattr(model, "width", backbone.width))
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)
