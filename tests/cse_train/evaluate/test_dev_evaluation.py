"""T8: what training does is the same whether or how often the dev set is scored."""

import multiprocessing
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn

from cse_train import checkpoint
from cse_train.backbone.backbone import load_backbone
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.evaluate import embedding
from cse_train.evaluate.embedding import evaluating
from cse_train.evaluate.pairs import Pairs
from cse_train.evaluate.sts import StsEvaluator
from cse_train.methods.loading import load_method
from cse_train.training.loop import train

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


def rank_of_a_group(rank: int, meeting: Path, made: tuple[nn.Module, object], pairs: Pairs, out: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    model, tokenizer = made
    with evaluating(model):
        found = StsEvaluator(pairs, tokenizer, 64)(model.encode)
    np.savez(out / f"{rank}.npz", cosines=found.cosines, spearman=found.spearman)
    dist.destroy_process_group()


def test_two_ranks_score_a_batch_norm_method_as_one(
    batch_norm_method: tuple[nn.Module, object], pairs: Pairs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "EMBEDDED_ROWS", 16)
    model, tokenizer = batch_norm_method
    with evaluating(model):
        alone = StsEvaluator(pairs, tokenizer, 64)(model.encode)
    fork = multiprocessing.get_context("fork")
    given = (tmp_path / "meeting", batch_norm_method, pairs, tmp_path)
    ranks = [fork.Process(target=rank_of_a_group, args=(rank, *given)) for rank in range(2)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(60)
    assert [process.exitcode for process in ranks] == [0, 0]
    for rank in range(2):
        found = np.load(tmp_path / f"{rank}.npz")
        np.testing.assert_allclose(found["cosines"], alone.cosines, atol=1e-6)
        assert found["spearman"] == pytest.approx(alone.spearman, abs=1e-6)
