"""On a card a thread makes the next batch: the same batches in the same steps."""

import gc
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.training.loop import train
from cse_train.training.upcoming import UpcomingBatches

CARD: Any = SimpleNamespace(type="cuda")


class Numbers:
    """A batch a step, which tells on which thread it was made."""

    def __init__(self) -> None:
        self.made: list[tuple[int, str]] = []

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
    assert [step for step, _ in numbers.made] == [1, 2] and not batches.made
    assert all(name.startswith("batches") for _, name in numbers.made)


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


@pytest.mark.parametrize("method", ["esimcse", "diffcse"])
def test_a_run_with_the_thread_is_bit_equal(
    method: str, tiny_settings: Callable[..., dict], tiny_paths: Callable[[str], DataPaths], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    run = parse_run(tiny_settings(method, train_evaluations=2))
    alone = train(run, tiny_paths(method), tmp_path / "alone", lambda point: False)
    begun = threading.active_count()
    opened = UpcomingBatches.__post_init__

    def ahead(batches: UpcomingBatches) -> None:
        batches.device, here = CARD, batches.device
        opened(batches)
        batches.device = here

    monkeypatch.setattr(UpcomingBatches, "__post_init__", ahead)
    with_thread = train(run, tiny_paths(method), tmp_path / "thread", lambda point: False)
    assert [point.metrics for point in with_thread.points] == [point.metrics for point in alone.points]
    gc.collect()
    for thread in threading.enumerate():
        if thread.name.startswith("batches"):
            thread.join(10)
    assert threading.active_count() <= begun, "the thread ends with its run"
