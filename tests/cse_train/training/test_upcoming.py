"""On a card a thread makes the next batch: the same batches in the same steps."""

import gc
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cse_train import methods
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.encoder import edits
from cse_train.training.batches import Batches, UpcomingBatches
from cse_train.training.loop import train

CARD = torch.device("meta")
EDITS = {"method_edits": "stored", "method_generator_dropout": True}
CASES: dict[str, tuple[str, dict[str, object]]] = {
    **{name: (name, {}) for name in methods.names()},
    "stored edits": ("diffcse", {"method_edits": "stored"}),
    "drawn edits": ("diffcse", EDITS),
    "sampled edits": ("diffcse", {**EDITS, "method_sampling": "sample", "method_source": "both"}),
    "live edits": ("diffcse", {"method_generator_dropout": True, "method_sampling": "sample"}),
    "words left out": ("simcse", {"method_augmentation": "word_deletion", "method_mlm_weight": 0.1}),
    "independent pairs": ("ct", {"method_pairing": "independent"}),
    "shuffled and cut": ("consert", {"method_augmentation_1": "shuffle", "method_augmentation_2": "token_cutoff"}),
}
"""Name -> a method and options: all that draw while a batch is made, or in the step beside it."""
SOON = ("esimcse", "diffcse", "drawn edits")


class Numbers:
    """A batch a step, which tells on which thread it was made."""

    def __init__(self) -> None:
        self.made: list[tuple[int, str]] = []
        self.ready: list[tuple[int, str]] = []

    def make_ready(self, step: int) -> None:
        self.ready.append((step, threading.current_thread().name))

    def __getitem__(self, step: int) -> Any:
        self.made.append((step, threading.current_thread().name))
        if step == 3:
            raise ValueError("row 7 is damaged")
        return SimpleNamespace(to=lambda device: (step, device))


def upcoming(device: Any, steps: int) -> tuple[Numbers, UpcomingBatches]:
    numbers: Any = Numbers()
    return numbers, UpcomingBatches(numbers, device, steps)


def test_the_thread_is_one_step_ahead_and_no_further_than_the_end() -> None:
    numbers, batches = upcoming(CARD, 3)
    assert [batches[step] for step in (1, 2)] == [(1, CARD), (2, CARD)]
    assert not batches.pending
    assert numbers.ready == [(1, "MainThread"), (2, "MainThread")], "what a batch reads is made between two steps"
    assert numbers.made == [(1, "MainThread"), (2, "batches_0")]


def test_what_a_batch_raises_comes_at_its_step() -> None:
    _, batches = upcoming(CARD, 9)
    assert batches[2] == (2, CARD)
    with pytest.raises(ValueError, match="row 7"):
        batches[3]


def test_a_step_out_of_turn_gets_its_own_batch() -> None:
    _, batches = upcoming(CARD, 9)
    assert [batches[step][0] for step in (0, 5, 1, 1)] == [0, 5, 1, 1]


def test_a_cpu_makes_each_batch_in_its_turn() -> None:
    numbers, batches = upcoming(torch.device("cpu"), 9)
    assert [batches[step][0] for step in (1, 2)] == [1, 2]
    assert numbers.made == [(1, "MainThread"), (2, "MainThread")]


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From its call on, a CPU has the thread too."""
    opened = UpcomingBatches.__post_init__

    def post_init(batches: UpcomingBatches) -> None:
        batches.device, here = CARD, batches.device
        opened(batches)
        batches.device = here

    return lambda: monkeypatch.setattr(UpcomingBatches, "__post_init__", post_init)


@pytest.mark.parametrize("case", [pytest.param(n, marks=() if n in SOON else pytest.mark.slow) for n in CASES])
def test_a_run_with_the_thread_is_bit_equal(
    case: str, tiny_settings: Callable[..., dict], tiny_paths: Callable[[str], DataPaths], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, ahead: Callable[[], None],
) -> None:  # fmt: skip
    monkeypatch.setattr(edits, "EDIT_BLOCK", 12)
    method, changes = CASES[case]
    dropout = None if methods.config_class(method).WORDS else 0.1
    sizes = {"train_examples": 56, "train_evaluations": 7, "train_dev": "generated_dev:12"}  # over the end of an epoch
    run = parse_run(tiny_settings(method, train_dropout=dropout, **sizes, **changes))

    def trained(name: str) -> tuple[list[Mapping[str, float]], list[tuple[str, bytes]]]:
        """Metrics of each point, and the stored edits of a cache of its own."""
        cache = tmp_path / name / "cache"
        points = train(run, replace(tiny_paths(method), cache=cache), tmp_path / name, lambda point: False).points
        edits = [(str(file.relative_to(cache)), file.read_bytes()) for file in sorted(cache.glob("edits/*/*.flat"))]
        return [point.metrics for point in points], edits

    alone = trained("alone")
    begun = threading.active_count()
    ahead()
    assert [trained(f"thread {number}") == alone for number in range(2)] == [True] * 2
    assert bool(alone[1]) == (changes.get("method_edits") == "stored")
    gc.collect()
    for thread in threading.enumerate():
        if thread.name.startswith("batches"):
            thread.join(10)
    assert threading.active_count() <= begun, "the thread ends with its run"


def test_batches_that_draw_from_torchs_own_generator_are_made_in_their_turn(
    tiny_settings: Callable[..., dict], tiny_paths: Callable[[str], DataPaths], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, ahead: Callable[[], None], caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """As a user's method may; `cse check-method` refuses it."""
    made = Batches.__getitem__
    monkeypatch.setattr(Batches, "__getitem__", lambda self, step: (torch.rand(9), made(self, step))[1])
    run = parse_run(tiny_settings("simcse", train_evaluations=2, train_dropout=0.1))
    ahead()
    losses = {
        train(run, tiny_paths("simcse"), tmp_path / str(number), lambda point: False).points[-1].metrics["loss"]
        for number in range(3)
    }
    assert len(losses) == 1
    assert caplog.messages == 3 * [
        "slow batches: make_collate draws from torch's generator; draw from share.rng_of(row)"
    ]
