"""Scores, their protocol, and a training that a dev evaluation does not touch."""

import dataclasses
import hashlib
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from cse_train import checkpoint, methods
from cse_train.config import RunConfig, parse_run
from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import load_backbone
from cse_train.evaluate import embedding
from cse_train.evaluate.embedding import StsEvaluator, evaluating
from cse_train.evaluate.pairs import Pairs, load_pairs
from cse_train.evaluate.score import save_cosines, score_checkpoint
from cse_train.evaluate.vectors import EmbeddedPairs, TextModel, sts_protocol
from cse_train.fields import ConfigError
from cse_train.methods.base import load_method
from cse_train.results import CODE_VERSION
from cse_train.training.loop import train
from tests.cse_train.evaluate.two_ranks import require_ranks_as_one


@pytest.fixture
def run(tiny_encoder: Path) -> RunConfig:
    flat = {"method": "simcse", "method.pooler": "cls_no_mlp", "train.encoder": str(tiny_encoder)}
    return parse_run(flat | {"train.dev_max_length": 48})


@pytest.fixture
def folder(run: RunConfig, tmp_path: Path) -> Path:
    """A finished run: its best checkpoint."""
    model = load_method(run.method).build(run.options, load_backbone(run.train.encoder))
    checkpoint.save_best(tmp_path / "run", run, model, {})
    return tmp_path / "run"


def test_scores_files_and_protocols(run: RunConfig, folder: Path, tmp_path: Path) -> None:
    suites = ["generated_dev:18", "generated_dev:30"]
    scores = score_checkpoint(folder, suites, DataPaths(), tmp_path / "out")
    assert [score.column for score in scores] == suites
    backbone = load_backbone(run.train.encoder)
    backbone.encoder.eval()
    for score in scores:
        pairs = load_pairs(score.suite, DataPaths())
        expected = StsEvaluator(pairs, backbone.tokenizer, 48)(lambda packed: backbone.encoder(packed).cls_VNH[0])
        kept = score.file
        assert kept is not None and score.cosines is None
        stored = np.load(kept.path)
        assert score.value == pytest.approx(expected.spearman, abs=1e-6)
        np.testing.assert_allclose(stored["cosines"], expected.cosines, atol=1e-6)
        np.testing.assert_array_equal(stored["gold"], pairs.gold)
        assert hashlib.sha256(kept.path.read_bytes()).hexdigest() == kept.sha256
        protocol = score.protocol
        assert (protocol.pooler, protocol.max_length, protocol.split) == ("cls_no_mlp", 48, "dev")
        assert protocol.data_hash == pairs.content_hash
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == sorted(s.file.path.name for s in scores if s.file)


def test_equal_cosines_have_equal_hashes(tmp_path: Path) -> None:
    gold = np.arange(4.0)
    first = save_cosines(tmp_path / "a.npz", gold / 7, gold)
    assert save_cosines(tmp_path / "b.npz", gold / 7, gold) == first
    assert save_cosines(tmp_path / "a.npz", gold / 8, gold) != first


def test_a_bad_suite_is_found_before_anything_is_scored(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^missing data: sts_dev"):
        score_checkpoint(folder, ["generated_dev:18", "sts_dev"], DataPaths(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_full_disk_leaves_the_earlier_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gold = np.arange(4.0)
    digest = save_cosines(tmp_path / "a.npz", gold, gold)

    def full(*_args: object, **_kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="No space left"):
        save_cosines(tmp_path / "a.npz", gold / 2, gold)
    assert hashlib.sha256((tmp_path / "a.npz").read_bytes()).hexdigest() == digest
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"]


AS_AT_TEST = {"consert": {"method.train_layers": None}, "promptbert": {"method.dev_denoising": False}}
"""Settings under which methods that pick by other vectors than those of the test pick by these."""


@pytest.mark.parametrize("method", methods.names())
def test_the_score_of_the_dev_set_is_the_best_dev_score_bit_for_bit(
    method: str, tiny_settings: Callable[..., dict], tiny_paths: Callable[[str], DataPaths], tmp_path: Path
) -> None:
    run, paths = parse_run(tiny_settings(method) | AS_AT_TEST.get(method, {})), tiny_paths(method)
    best = train(run, paths, tmp_path, lambda point: False).best
    (score,) = score_checkpoint(tmp_path / "best", [run.train.dev], paths, tmp_path / "scores")
    assert score.value == best


@pytest.fixture
def model(made_model) -> TextModel:
    return dataclasses.replace(made_model, pooler="mean", max_length=64)


def test_protocol_of_a_set(pairs: Pairs, model: TextModel) -> None:
    protocol = sts_protocol(pairs, model)
    assert protocol.facts == {
        "suite": "made",
        "pooler": "mean",
        "aggregation": "all",
        "split": "test",
        "max_length": 64,
        "precision": "fp32",
        "case": "as is",
        "rule": "",
        "data_hash": "hash",
        "code_version": CODE_VERSION,
    }


def test_protocol_cannot_change_after_the_fact(pairs: Pairs, model: TextModel) -> None:
    protocol = sts_protocol(pairs, model)
    with pytest.raises(dataclasses.FrozenInstanceError):
        protocol.pooler = "cls"  # type: ignore[misc]
    assert protocol == sts_protocol(pairs, model)
    assert protocol != sts_protocol(pairs, dataclasses.replace(model, pooler="cls"))


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
