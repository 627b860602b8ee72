"""Every method on a pretended card (`pretend_card.py`): no tensor on the wrong device, and a killed run goes on."""

import re
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from cse_train import checkpoint, methods
from cse_train.config import RunConfig, parse_run
from cse_train.data_paths import DataPaths
from cse_train.encoder import edits
from cse_train.evaluate.score import score_checkpoint
from cse_train.plugins import registry
from cse_train.training.batches import Batches
from cse_train.training.loop import Point, Session, train
from tests.cse_train.pretend_card import CARD, CPU, PretendCard

TENSION = "tension"
"""The method of PAGE."""
PAGE = Path(__file__).resolve().parents[2] / "docs" / "your_method.md"
VARIANTS: dict[str, tuple[str, dict[str, object]]] = {
    "simcse with SGD": ("simcse", {"train_optimiser": "sgd", "train_learning_rate": 0.1}),
    "simcse with a masked LM": ("simcse", {"method_mlm_weight": 0.1}),
    "declutr, contrast alone": ("declutr", {"method_objective": "contrastive"}),
    "sgopt with its embeddings": ("sgopt", {"method_train_embeddings": True}),
    "esimcse with a random momentum encoder": ("esimcse", {"method_momentum_init": "random"}),
}
"""Name -> a method with options that keep other state."""
CASES = {**{name: (name, {}) for name in (*methods.names(), TENSION)}, **VARIANTS}
SOON = ("simcse", "esimcse", "diffcse", "whitening", TENSION)
"""A compact vocabulary, a queue and a momentum encoder, a generator, a fit, and a user's; the others are slow tests."""

WAITING = ("infersent", "flow", "whitening", TENSION)
"""How many words have a vector decides the LSTM's steps; two are fitted; and a user's."""
STEPS: dict[str, tuple[str, dict[str, object]]] = {
    **{name: case for name, case in CASES.items() if name not in WAITING},
    "diffcse with a masked LM": ("diffcse", {"method_task": "masked_lm"}),
    "diffcse with a corrective LM": ("diffcse", {"method_task": "corrective_lm"}),
    "diffcse with words put in": ("diffcse", {"method_operator": "insert"}),
    "diffcse with words drawn": ("diffcse", {"method_sampling": "sample"}),
    "sgopt with all guides": ("sgopt", {"method_objective": "opt3"}),
}
"""Name -> a method and options whose step is looked at."""


@pytest.fixture(scope="module")
def tension(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    file = tmp_path_factory.mktemp("mine") / "tension.py"
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf8"), re.MULTILINE | re.DOTALL)
    file.write_text(code, encoding="utf8")
    registry.use([file])
    yield
    registry.forget()


@pytest.fixture
def card() -> Iterator[PretendCard]:
    with PretendCard().plugged_in() as card:
        yield card


@pytest.fixture
def run_of(tiny_settings: Callable[..., dict], tension: None) -> Callable[..., RunConfig]:
    """A run of updates 0 to 3, scored after 1 and 3, without dropout, whose masks a card draws in another way."""

    def run(method: str, **changes: object) -> RunConfig:
        dropout = None if methods.config_class(method).WORDS else 0.0
        sizes = {"train_examples": 32, "train_evaluations": 2, "train_dev": "generated_dev:12"}
        return parse_run(tiny_settings(method, **{"train_dropout": dropout, **sizes, **changes}))

    return run


def state_of(folder: Path) -> dict[str, Any]:
    """Weights and moments of a run's last checkpoint, each under a name."""
    state = checkpoint.load_last(folder)
    assert state is not None
    moments = state["optimiser"]["state"].items()
    return state["model"] | {f"{number} {name}": value for number, each in moments for name, value in each.items()}


@pytest.mark.parametrize("precision", ["fp32", pytest.param("tf32", marks=pytest.mark.slow), "bf16"])
@pytest.mark.parametrize("case", [pytest.param(n, marks=() if n in SOON else pytest.mark.slow) for n in CASES])
def test_a_killed_run_goes_on_at_the_next_step_and_ends_bit_equal(
    case: str,
    precision: str,
    run_of: Callable[..., RunConfig],
    tiny_paths: Callable[[str], DataPaths],
    tmp_path: Path,
    updates: list[int],
) -> None:
    method, changes = CASES[case]
    run, paths = run_of(method, train_precision=precision, **changes), tiny_paths(method)
    on_cpu = train(run, paths, tmp_path / "cpu", lambda point: False)
    card = PretendCard()

    def copied(point: Point) -> bool:
        """What a kill leaves from now until the next point."""
        if point.step == 2:
            shutil.copytree(tmp_path / "whole", tmp_path / "killed")
        return False

    with card.plugged_in():
        whole = train(run, paths, tmp_path / "whole", copied, save_minutes=0)
        updates.clear()
        resumed = train(run, paths, tmp_path / "killed", lambda point: False)
        (score,) = score_checkpoint(tmp_path / "whole" / "best", [run.train.dev], paths, tmp_path)
    (here,) = score_checkpoint(tmp_path / "whole" / "best", [run.train.dev], paths, tmp_path)
    assert score.value == pytest.approx(here.value, abs=1e-3), "scored on the card as on the CPU"
    assert not card.faults, card.faults
    assert updates == [2, 3], "the first update trained is the one after the last checkpoint"
    one, other = state_of(tmp_path / "killed"), state_of(tmp_path / "whole")
    assert one.keys() == other.keys()
    assert [name for name, value in other.items() if not equal(value, one[name])] == []
    assert [point.metrics for point in resumed.points] == [point.metrics for point in whole.points]
    bf16 = run.train.precision == "bf16"  # what of a step is rounded to it differs from CPU to CPU
    near, least = (3e-2, 2e-2) if bf16 else (1e-3, 5e-4)  # flow's loss is a difference of terms near 1: 0.0188, 0.0135
    for one_point, other_point in zip(whole.points, on_cpu.points, strict=True):
        losses = one_point.metrics["loss"], other_point.metrics["loss"]
        # flow's loss lies near 0 and moves by 1e-4 with the number of length groups, on a CPU too
        assert losses[0] == pytest.approx(losses[1], rel=near, abs=least), "the card computes as the CPU"


def test_batches_are_made_in_a_thread_and_stored_edits_are_the_seeds(
    run_of: Callable[..., RunConfig],
    tiny_paths: Callable[[str], DataPaths],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And a CPU's edits are others: they have other names, under which it finds those that it made before."""
    monkeypatch.setattr(edits, "EDIT_BLOCK", 8)
    drawn = {"method_edits": "stored", "method_generator_dropout": True, "train_dropout": 0.1}
    run, threads = run_of("diffcse", **drawn), set()
    made = Batches.__getitem__
    monkeypatch.setattr(
        Batches, "__getitem__", lambda self, step: (threads.add(threading.current_thread().name), made(self, step))[1]
    )

    def trained(name: str) -> tuple[list[float], dict[str, bytes]]:
        cache = tmp_path / name / "cache"
        outcome = train(run, replace(tiny_paths("diffcse"), cache=cache), tmp_path / name, lambda point: False)
        edits = {str(file.relative_to(cache)): file.read_bytes() for file in sorted(cache.glob("edits/*/*.flat"))}
        return [point.metrics["loss"] for point in outcome.points], edits

    here = trained("cpu")
    assert threads == {"MainThread"}
    with PretendCard().plugged_in() as card:
        first, *others = [trained(f"card {number}") for number in range(3)]
    assert threads == {"MainThread", "batches_0"} and not card.faults
    assert others == [first, first]
    assert len(here[1]) == len(first[1]) == 2 * 4 and not here[1].keys() & first[1].keys()
    assert sorted({name.split("/")[1][:8] for name in here[1]}) == CPU_BLOCKS


CPU_BLOCKS = ["98f04496", "a7a9f83c", "e9ae3c1e", "f52f8784"]
"""The first digits of the names that these blocks had when names said nothing of a device."""


def equal(one: Any, other: Any) -> bool:
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else bool(one == other)


@pytest.mark.parametrize("case", STEPS)
def test_a_step_waits_for_nothing(
    case: str,
    run_of: Callable[..., RunConfig],
    tiny_paths: Callable[[str], DataPaths],
    card: PretendCard,
    tmp_path: Path,
) -> None:
    method, changes = STEPS[case]
    session = Session.open(run_of(method, **changes), tiny_paths(method), tmp_path)
    session.model.train()
    session.update()
    session.step += 1
    card.waits.clear()
    session.update()
    assert not card.waits and not card.faults


def test_a_step_of_four_layers_launches_few_kernels(
    tiny_settings: Callable[..., dict],
    tiny_paths: Callable[[str], DataPaths],
    card: PretendCard,
    tmp_path: Path,
) -> None:
    lines = (tmp_path / "lines.txt", tiny_paths("simcse").train_file)
    lines[0].write_text(2 * lines[1].read_text(encoding="utf8"), encoding="utf8")
    run = parse_run(tiny_settings("simcse", train_encoder="words-l4-h128", train_batch_size=64, train_examples=640))
    session = Session.open(run, replace(tiny_paths("simcse"), train_file=lines[0]), tmp_path)
    session.model.train()
    session.update()
    session.step += 1
    card.launches.clear()
    session.update()
    assert card.launches["attention"] == 2 * 4, "one a layer forwards, one backwards"
    assert 200 < card.launches.total() <= 320, card.launches.most_common(10)


MIXED: dict[str, Callable[[torch.Tensor], object]] = {
    "a sum": lambda x: x + torch.ones(3),
    "a product of matrices": lambda x: x[None] @ torch.ones(3, 1),
    "joining": lambda x: torch.cat([x, torch.ones(1)]),
    "the CPU's rows at the card's places": lambda x: torch.ones(4)[x.long()],
    "writing the CPU's rows": lambda x: x.index_put_((torch.tensor([0, 1]),), torch.ones(2)),
    "an embedding": lambda x: torch.nn.functional.embedding(x.long(), torch.ones(4, 2)),
    "to numpy": lambda x: x.numpy(),
}
FINE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "a number": lambda x: x + torch.tensor(1.0),
    "the card's rows at the CPU's places": lambda x: x[torch.tensor([0, 2])],
    "a copy": lambda x: torch.zeros_like(x).copy_(torch.ones(3)),
    "a change in place": lambda x: x.clone().add_(1),
    "a new tensor": lambda x: x.new_ones(2) + torch.zeros(2, device=x.device),
    "its own numbers": lambda x: x[x > 1],
}
WAITS: dict[str, Callable[[torch.Tensor], object]] = {
    "item": lambda x: x.sum().item(),
    "a comparison": lambda x: bool(x.sum() > 1),
    "tolist": lambda x: x.tolist(),
    "cpu": lambda x: x.cpu(),
    "a mask": lambda x: x[x > 1],
    "nonzero": lambda x: x.nonzero(),
    "repeat_interleave": lambda x: x.repeat_interleave(x.long()),
}


@pytest.mark.parametrize("name", MIXED)
def test_the_card_refuses_what_cuda_refuses_and_names_the_line(name: str, card: PretendCard) -> None:
    x = torch.arange(3.0, device=CARD)
    with pytest.raises((RuntimeError, TypeError)):
        MIXED[name](x)
    (fault,) = card.faults
    assert "cse_train/test_pretend_card.py:" in fault


@pytest.mark.parametrize("name", FINE)
def test_the_card_takes_what_cuda_takes(name: str, card: PretendCard) -> None:
    there = FINE[name](torch.arange(3.0, device=CARD))
    here = FINE[name](torch.arange(3.0))
    assert there.device == CARD and not card.faults
    assert torch.equal(there.cpu(), here) and here.device == CPU


@pytest.mark.parametrize("name", WAITS)
def test_what_the_host_waits_for_is_named_with_its_line(name: str, card: PretendCard) -> None:
    WAITS[name](torch.arange(3.0, device=CARD))
    assert len(card.waits) == 1 and "cse_train/test_pretend_card.py:" in next(iter(card.waits)), card.waits
