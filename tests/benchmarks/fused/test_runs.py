"""Fused runs against the same runs one by one: losses, gradients and weights, over steps, and what cannot be fused."""

import copy
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.fused.encoder import dropout
from benchmarks.fused.optimiser import FusedAdamW
from benchmarks.fused.runs import FusedRuns, problems
from cse_train.config import RunConfig, parse_run
from cse_train.data_paths import DataPaths
from cse_train.fields import ConfigError
from cse_train.numerics import multiplies_bf16
from cse_train.training.loop import Session

STEPS = 6
Settings = Callable[..., dict]
Paths = Callable[[str], DataPaths]
DIFFERING: list[dict[str, Any]] = [
    {"train_seed": 0, "train_learning_rate": 1e-4},
    {"train_seed": 1, "train_learning_rate": 3e-5, "method_temperature": 0.1},
    {"train_seed": 2, "train_learning_rate": 1e-4, "train_max_grad_norm": 0.05},
    {"train_seed": 3, "train_learning_rate": 2e-4, "train_adamw": "torch", "train_warmup_ratio": 0.2},
    {"train_seed": 4, "train_learning_rate": 5e-5, "train_adamw": "uncorrected", "train_max_grad_norm": None},
]
FAST = [
    change | {"train_learning_rate": 30 * change["train_learning_rate"], "train_weight_decay": 0.1 * (number + 1)}
    for number, change in enumerate(DIFFERING)
]
"""Changes of five runs that train together."""


@pytest.fixture
def runs_of(tiny_settings: Settings) -> Callable[..., list[RunConfig]]:
    def made(changes: Sequence[dict[str, Any]], **shared: object) -> list[RunConfig]:
        return [parse_run(tiny_settings("simcse", **{"train_dropout": 0.0, **change, **shared})) for change in changes]

    return made


def alone(run: RunConfig, paths: DataPaths, folder: Path, dtype: torch.dtype = torch.float32) -> Any:
    """Losses of the steps, gradients as they were clipped, and the weights at the end."""
    session = Session.open(run, paths, folder)
    session.model.train().to(dtype)
    losses, gradients = [], []
    step = session.optimiser.step

    def noting(*arguments: Any, **named: Any) -> Any:
        gradients.append({n: p.grad.clone() for n, p in session.model.named_parameters()})
        return step(*arguments, **named)

    session.optimiser.step = noting  # type: ignore[method-assign]
    for _ in range(STEPS):
        losses.append(session.update()["loss"].item())
        session.step += 1
    return losses, gradients, {n: p.detach().clone() for n, p in session.model.named_parameters()}


def together(fused: FusedRuns) -> tuple[list[list[float]], list[dict]]:
    """Losses of the steps, run by run, and each step's gradients."""
    losses, gradients = [], []
    step = fused.optimiser.step

    def noting(number: int) -> None:
        gradients.append({name: value.clone() for name, value in fused.weights.gradients().items()})
        step(number)

    fused.optimiser.step = noting  # type: ignore[method-assign]
    for _ in range(STEPS):
        losses.append(fused.update().tolist())
    return losses, gradients


def distance(left: Mapping[str, torch.Tensor], right: Mapping[str, torch.Tensor]) -> float:
    """Of all tensors together, relative to the right ones."""
    ours, wanted = (torch.cat([of[name].detach().double().flatten() for name in right]) for of in (left, right))
    return float((ours - wanted).norm() / wanted.norm())


@pytest.mark.parametrize(
    "shared",
    [
        {},
        {"method_pooler": "cls_no_mlp"},
        {"train_weight_decay": 0.1, "method_pooler": "cls"},
        {"train_encoder": "wiki-l2-h128", "train_max_seq_length": 32},
    ],
    ids=["", "without projector", "decay and the whole vocabulary", "shipped encoder"],
)
def test_losses_gradients_and_weights_are_those_of_single_runs(
    shared: dict, runs_of: Callable[..., list[RunConfig]], tiny_paths: Paths, tmp_path: Path
) -> None:
    runs, paths = runs_of(DIFFERING, **shared), tiny_paths("simcse")
    fused = FusedRuns(runs, paths)
    losses, gradients = together(fused)
    for number, run in enumerate(runs):
        wanted, exact, weights = alone(run, paths, tmp_path / str(number))
        assert [of[number] for of in losses] == pytest.approx(wanted, rel=1e-5, abs=1e-6)
        assert len(set(wanted)) > 1
        for ours, theirs in zip(gradients, exact, strict=True):
            assert distance(select(ours, number), theirs) < 1e-5
        assert distance(dict(fused.single(number).named_parameters()), weights) < 1e-5


def test_in_double_precision_fast_runs_are_equal_too(
    runs_of: Callable[..., list[RunConfig]], tiny_paths: Paths, tmp_path: Path
) -> None:
    """Rates at which fp32's rounding grows from step to step: what differs here is no rounding."""
    runs, paths = runs_of(FAST), tiny_paths("simcse")
    fused = FusedRuns(runs, paths)
    for leaf in fused.weights.leaves:
        leaf.data = leaf.data.double()
    fused.optimiser = FusedAdamW(fused.weights.leaves, [run.train for run in runs])
    losses, gradients = together(fused)
    for number, run in enumerate(runs):
        wanted, exact, _ = alone(run, paths, tmp_path / str(number), torch.float64)
        assert [of[number] for of in losses] == pytest.approx(wanted, rel=1e-6)
        assert (
            max(distance(select(ours, number), theirs) for ours, theirs in zip(gradients, exact, strict=True)) < 1e-10
        )


def select(stacked: dict[str, torch.Tensor], number: int) -> dict[str, torch.Tensor]:
    return {name: value[number] for name, value in stacked.items()}


def test_a_run_does_not_depend_on_those_beside_it(runs_of: Callable[..., list[RunConfig]], tiny_paths: Paths) -> None:
    five, two = (FusedRuns(runs_of(changes), tiny_paths("simcse")) for changes in (DIFFERING, DIFFERING[1:3]))
    for _ in range(STEPS):
        assert five.update()[1:3].tolist() == pytest.approx(two.update().tolist(), rel=1e-5)


def test_runs_with_dropout_differ_by_seed_and_learn(runs_of: Callable[..., list[RunConfig]], tiny_paths: Paths) -> None:
    changes = [{"train_seed": seed, "train_dropout": rate} for seed, rate in ((0, 0.1), (0, 0.1), (1, 0.3))]
    fused = FusedRuns(runs_of(changes), tiny_paths("simcse"))
    losses = torch.stack([fused.update() for _ in range(20)])
    assert losses.isfinite().all() and len(set(losses[0].tolist())) == 3, "equal runs have other masks"
    assert bool((losses[-4:].mean(0) < losses[:4].mean(0)).all())
    again = FusedRuns(runs_of(changes), tiny_paths("simcse"))
    assert again.update().tolist() == losses[0].tolist()


def test_masks_have_each_runs_rate_and_keep_the_mean() -> None:
    torch.manual_seed(0)
    dropped = dropout(torch.ones(3, 100, 1000), [0.0, 0.1, 0.5])
    assert (dropped == 0).float().mean((1, 2)).tolist() == pytest.approx([0.0, 0.1, 0.5], abs=5e-3)
    assert dropped.mean((1, 2)).tolist() == pytest.approx([1.0] * 3, abs=1e-2)


def test_a_single_model_embeds_as_the_run_that_it_came_from(
    runs_of: Callable[..., list[RunConfig]], tiny_paths: Paths, tmp_path: Path
) -> None:
    runs, paths = runs_of(DIFFERING[:2]), tiny_paths("simcse")
    fused = FusedRuns(runs, paths)
    session = Session.open(runs[1], paths, tmp_path)
    session.model.train()
    for _ in range(STEPS):
        fused.update()
        session.update()
        session.step += 1
    text = session.batches[0].inputs["text"]
    ours, theirs = (copy.deepcopy(model).eval().encode(text) for model in (fused.single(1), session.model))
    assert distance({"": ours}, {"": theirs}) < 1e-4
    assert distance({"": fused.single(0).eval().encode(text)}, {"": theirs}) > 1e-2


def test_bf16_is_near_fp32(runs_of: Callable[..., list[RunConfig]], tiny_paths: Paths) -> None:
    exact, near = (
        FusedRuns(runs_of(DIFFERING, train_precision=precision), tiny_paths("simcse")) for precision in ("fp32", "bf16")
    )
    first, second = exact.update(), near.update()
    assert first.tolist() == pytest.approx(second.tolist(), rel=0.05, abs=0.02)
    assert (first.tolist() != second.tolist()) == multiplies_bf16()  # a CPU that does not computes in fp32


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"train_batch_size": 4}, "train.batch_size differs (8, 4); use one value"),
        ({"train_max_seq_length": 8}, "train.max_seq_length differs (16, 8)"),
        ({"method_pooler": "mean"}, "method.pooler=mean; use one of [CLS]"),
        ({"method_pooler": "cls"}, "method.pooler differs"),
        ({"method_mlm_weight": 0.1}, "method.mlm_weight=0.1; use None"),
        ({"method_augmentation": "crop"}, "method.augmentation=crop; use none"),
        ({"method_objective": "next_sentence"}, "method.objective=next_sentence; use unsupervised"),
        ({"method_projector": "batchnorm"}, "method.projector=batchnorm; use mlp"),
        ({"train_optimiser": "sgd"}, "train.optimiser is not adamw"),
    ],
)
def test_what_cannot_be_fused_is_named(
    changes: dict, line: str, runs_of: Callable[..., list[RunConfig]], tiny_paths: Paths
) -> None:
    runs = [*runs_of([{}]), *runs_of([changes])]
    assert any(line in text for text in problems(runs)), problems(runs)
    with pytest.raises(ConfigError):
        FusedRuns(runs, tiny_paths("simcse"))


def test_another_method_is_not_fused(runs_of: Callable[..., list[RunConfig]], tiny_settings: Settings) -> None:
    runs = [*runs_of([{}]), parse_run(tiny_settings("esimcse"))]
    assert problems(runs) == ["not fused: method=esimcse; use simcse"]
