"""Every method on one card, with text made on the spot.

    python -m pytest -m gpu -s --confcutdir tests/cse_train tests/cse_train/test_gpu.py

needs no Ray, no Optuna and no SQLAlchemy: the conftest.py of `tests`, which does, is left out.
"""

import itertools
import math
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch

from cse_train import methods, random_streams
from cse_train.config import RunConfig, parse_run
from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import load_backbone
from cse_train.evaluate.score import score_checkpoint
from cse_train.methods.base import Share, load_method
from cse_train.training.batches import Batches
from cse_train.training.loop import Outcome, train

CARD = torch.cuda.is_available()
DEVICE = "cuda" if CARD else "cpu"
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not CARD and "CSE_CARD_TESTS_ON_CPU" not in os.environ, reason="no CUDA device: run on a GPU machine"
    ),
]
METHODS = methods.names()


OTHERS = [(method, precision) for precision in ("tf32", "fp16") for method in ("simcse", "isbert", "infersent")]
"""An encoder, its convolutions, and an LSTM."""


@pytest.mark.parametrize(("method", "precision"), [*itertools.product(METHODS, ("fp32", "bf16")), *OTHERS])
def test_trains_evaluates_resumes_and_scores(
    method: str,
    precision: str,
    tiny_settings: Callable[..., dict],
    tiny_paths: Callable[[str], DataPaths],
    tmp_path: Path,
    updates: list[int],
) -> None:
    if precision == "fp16" and not CARD:
        pytest.skip("a CPU refuses fp16")
    dropout = None if methods.config_class(method).WORDS else 0.1
    settings = tiny_settings(method, train_precision=precision, train_evaluations=4, train_dropout=dropout)
    run, paths = parse_run(settings), tiny_paths(method)
    begun = time.perf_counter()
    whole = train(run, paths, tmp_path / "whole", lambda point: False)
    seconds = time.perf_counter() - begun
    assert not whole.stopped and all(math.isfinite(v) for p in whole.points for v in p.metrics.values())
    stopped = train(run, paths, tmp_path / "halves", lambda point: point.step == 10)
    updates.clear()
    resumed = train(run, paths, tmp_path / "halves", lambda point: False)
    assert updates == list(range(10, 20)), "it goes on at the next update"
    assert stopped.stopped and losses(resumed) == pytest.approx(losses(whole), rel=1e-2)
    if CARD and torch.cuda.get_device_capability() >= (8, 0):
        assert whole.precision == precision
    (score,) = score_checkpoint(tmp_path / "whole" / "best", [run.train.dev], paths, tmp_path)
    assert score.value == pytest.approx(whole.best, abs=0.5)
    print(f"\n{method} {precision}: {len(whole.points)} points, loss {losses(whole)}, {seconds:.1f} s", end="")
    assert not [name for name in ("ray", "optuna") if sys.modules.get(name)]


ON_TOKENS = {"consert": {"method_augmentation_1": "shuffle", "method_augmentation_2": "token_cutoff"}}
"""Features are cut off by the device's own draws."""


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("method", METHODS)
def test_first_step_equals_the_cpu(
    method: str,
    precision: str,
    tiny_settings: Callable[..., dict],
    tiny_paths: Callable[[str], DataPaths],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Loss and gradients without dropout, fp32 without TF32; bf16 near it."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # torch's default for the LSTM of InferSent
    run = parse_run(tiny_settings(method, train_dropout=0.0, **ON_TOKENS.get(method, {})))
    loss, gradients = first_step(run, tiny_paths(method), DEVICE, precision)
    wanted, exact = first_step(run, tiny_paths(method), "cpu", "fp32")
    near, far = (1e-3, 1e-2) if precision == "fp32" else (0.1, 0.2)
    print(f"\n{method} {precision}: loss {loss:.6g}, on the CPU {wanted:.6g}", end="")
    assert loss == pytest.approx(wanted, rel=near)
    if len(exact):
        length, distance = gradients.norm() / exact.norm(), (gradients - exact).norm() / exact.norm()
        print(f"; the gradient's length {length:.6f} of that, its distance {distance:.2g}", end="")
        assert length == pytest.approx(1.0, rel=near) and distance < far


def first_step(run: RunConfig, paths: DataPaths, device: str, precision: str) -> tuple[float, torch.Tensor]:
    """The loss of a batch of 8 and its gradients in one vector, which is empty for a method that is fitted."""
    backbone = load_backbone(run.train.encoder, 0.0)
    batches = Batches.open(run, paths, backbone)
    rows = batches.rows[:8]
    batch = batches.collate(Share(batches.store, rows, rows, partial(random_streams.augmentation, 0, 0)))
    random_streams.seed_new_weights(0)
    model = load_method(run.method).build(run.options, backbone).train().to(device)
    with torch.autocast(device, torch.bfloat16, enabled=precision == "bf16"):
        loss = model(batch.to(device)).loss
    if not loss.requires_grad:
        return loss.item(), torch.empty(0)
    loss.backward()
    gradients = [p.grad.cpu().double().flatten() for p in model.parameters() if p.grad is not None]
    return loss.item(), torch.cat(gradients)


def losses(outcome: Outcome) -> list[float]:
    """The loss at each point."""
    return [round(point.metrics["loss"], 4) for point in outcome.points]
