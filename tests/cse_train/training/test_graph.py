"""train.graph: a compiled step is the eager one, dropout and all; few graphs serve all batches, layers and runs."""

import logging
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch._dynamo.utils import counters

from cse_train import distributed, numerics
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.encoder.encoder import Layer, compile_layers
from cse_train.training.fit import settle_graph
from cse_train.training.loop import Session

STEPS = 3
GRAPHS = 4
"""At most: of whole layers, of those that [CLS] alone goes through, and both of a second encoder."""
CASES: dict[str, tuple[str, dict[str, object]]] = {
    "simcse": ("simcse", {}),
    "simcse in bf16": ("simcse", {"train_precision": "bf16"}),
    "simcse, means": ("simcse", {"method_pooler": "mean"}),
    "esimcse": ("esimcse", {}),
    "ct": ("ct", {}),
    "promptbert": ("promptbert", {}),
    "dcpcse": ("dcpcse", {}),
    "diffcse": ("diffcse", {}),
}


class Trained(NamedTuple):
    """What a few updates gave."""

    losses: list[float]
    gradients: torch.Tensor
    """Of the first update, in one vector."""
    weights: torch.Tensor
    """After the last."""


@pytest.fixture
def trained(
    tiny_settings: Callable[..., dict],
    tiny_paths: Callable[[str], DataPaths],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Trained]:
    """Trains on the way of a card, gone on a CPU: the CPU's own masks of dropout are none that torch.compile takes."""
    device = distributed.device()
    monkeypatch.setattr(numerics, "is_card", lambda device: True)
    monkeypatch.setattr(distributed, "has_card", lambda: True)
    monkeypatch.setattr(distributed, "device", lambda: device)

    def train(case: str, compiled: bool) -> Trained:
        method, changes = CASES[case]
        run = parse_run(tiny_settings(method, train_dropout=0.1, **changes))
        session = Session.open(run, tiny_paths(method), tmp_path / str(uuid.uuid4()))
        if compiled:
            compile_layers(session.model, "aot_eager")
        session.model.train()
        losses, first = list[float](), torch.empty(0)
        monkeypatch.setattr(session.optimiser, "zero_grad", lambda set_to_none: None)
        for session.step in range(STEPS):
            losses.append(session.update()["loss"].item())
            given = [p.grad.flatten() for p in session.model.parameters() if p.grad is not None]
            first = first if session.step else torch.cat(given).clone()
            session.model.zero_grad()
        return Trained(losses, first, torch.cat([p.detach().flatten() for p in session.model.parameters()]))

    return train


SOON = ("simcse", "diffcse")
"""One encoder with dropout, and a second one behind a projector; the others are among the slow tests."""


@pytest.mark.parametrize("case", [pytest.param(n, marks=() if n in SOON else pytest.mark.slow) for n in CASES])
def test_a_compiled_step_is_the_eager_one(case: str, trained: Callable[..., Trained]) -> None:
    eager = trained(case, compiled=False)
    torch._dynamo.reset()
    counters.clear()
    compiled = trained(case, compiled=True)
    assert compiled.losses[0] == eager.losses[0] and len(set(eager.losses)) == STEPS and eager.gradients.any()
    if case.endswith("in bf16") and numerics.multiplies_bf16():  # backward, a graph rounds to bf16 at other places
        assert (compiled.gradients - eager.gradients).norm() <= 2**-7 * eager.gradients.norm()
    else:
        assert compiled.losses == eager.losses and torch.equal(compiled.gradients, eager.gradients)
        assert torch.equal(compiled.weights, eager.weights)
    made = counters["stats"]["unique_graphs"]
    assert 1 <= made <= GRAPHS and not counters["graph_break"]
    if case == "simcse":
        again = trained(case, compiled=True)
        assert again.losses == eager.losses and counters["stats"]["unique_graphs"] == made, "of the run before"


def layers_of(model: torch.nn.Module) -> list[Layer]:
    return [module for module in model.modules() if isinstance(module, Layer)]


def test_a_cpu_computes_as_it_is(
    tiny_settings: Callable[..., dict], tiny_paths: Callable[[str], DataPaths], tmp_path: Path
) -> None:
    run = parse_run(tiny_settings("simcse", train_graph="auto"))
    session = Session.open(run, tiny_paths("simcse"), tmp_path)
    assert [layer.compiler for layer in layers_of(session.model)] == [None, None]


@pytest.mark.parametrize("asked", ["auto", "off"])
@pytest.mark.parametrize("there", [True, False])
def test_a_card_s_layers_are_compiled_where_kernels_can_be_made(
    asked: str,
    there: bool,
    tiny_settings: Callable[..., dict],
    tiny_paths: Callable[[str], DataPaths],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Triton comes with torch's builds for cards; its kernels need a C compiler too."""
    model = Session.open(parse_run(tiny_settings("simcse")), tiny_paths("simcse"), tmp_path).model
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name == "triton")
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/cc" if there and name == "cc" else None)
    with caplog.at_level(logging.WARNING):
        settle_graph(model, torch.device("cuda"), asked)
    compiles = asked == "auto" and there
    assert [layer.compiler for layer in layers_of(model)] == 2 * ["inductor" if compiles else None]
    told = [f"nothing compiled: train.graph=auto needs a C compiler; {EAGER}"] if asked == "auto" and not there else []
    assert caplog.messages == told


EAGER = "steps are computed without it"
