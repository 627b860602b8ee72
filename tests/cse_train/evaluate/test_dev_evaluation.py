"""T8: what training does is the same whether or how often the dev set is scored."""

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from cse_train import checkpoint
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import load_backbone
from cse_train.evaluate import embedding
from cse_train.evaluate.embedding import StsEvaluator, evaluating
from cse_train.evaluate.pairs import Pairs
from cse_train.evaluate.vectors import EmbeddedPairs
from cse_train.methods.base import load_method
from cse_train.training.loop import train
from tests.cse_train.evaluate.two_ranks import require_ranks_as_one

BATCH_NORM = {"method_projector": "batchnorm", "method_pooler": "cls"}


@pytest.fixture
def batch_norm_method(tiny_settings: Callable[..., dict]) -> tuple[nn.Module, object]:
    """SimCSE with DiffCSE's projector, running statistics away from their start."""
    run = parse_run(tiny_settings("simcse", **BATCH_NORM))
    backbone = load_backbone(run.train.encoder)
    model = load_method("simcse").build(run.options, backbone).train()
    with torch.no_grad():
        model.pooler.projector(torch.randn(2, 8, 32, generator=torch.Generator().manual_seed(0)))
    return model, backbone.tokenizer


def test_T8_statistics_modes_and_random_state_survive(
    batch_norm_method: tuple[nn.Module, object], pairs: Pairs
) -> None:
    model, tokenizer = batch_norm_method
    model.encoder.layers[0].eval()
    modes = [module.training for module in model.modules()]
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    with evaluating(model):
        StsEvaluator(pairs, tokenizer, 64)(model.encode)
        torch.rand(3)
    assert [module.training for module in model.modules()] == modes and True in modes and False in modes
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (np.random.get_state()[1] == before[1]).all() and random.getstate() == before[2]


def test_T8_modes_survive_an_evaluation_that_fails(batch_norm_method: tuple[nn.Module, object]) -> None:
    model, _ = batch_norm_method
    with pytest.raises(KeyError), evaluating(model):
        raise KeyError
    assert all(module.training for module in model.modules())


def test_T8_the_number_of_evaluations_changes_no_weight(
    tiny_settings: Callable[..., dict], text_file: Path, tmp_path: Path
) -> None:
    paths, ends = DataPaths(train_file=text_file), []
    for evaluations in (1, 10):
        run = parse_run(tiny_settings("simcse", train_examples=80, train_evaluations=evaluations, **BATCH_NORM))
        train(run, paths, tmp_path / str(evaluations), lambda point: False)
        ends.append(checkpoint.load_last(tmp_path / str(evaluations))["model"])
    assert ends[0].keys() == ends[1].keys()
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


def test_two_ranks_score_a_batch_norm_method_as_one(
    batch_norm_method: tuple[nn.Module, object], pairs: Pairs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "EMBEDDED_ROWS", 16)
    model, tokenizer = batch_norm_method

    def score() -> EmbeddedPairs:
        with evaluating(model):
            return StsEvaluator(pairs, tokenizer, 64)(model.encode)

    require_ranks_as_one(score, tmp_path)
