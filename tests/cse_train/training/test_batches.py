"""Which rows meet in a batch, and batches that a thread makes ahead for a card."""

import gc
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from cse_train import distributed, methods
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.encoder import edits
from cse_train.encoder.backbone import load_backbone
from cse_train.fields import ConfigError
from cse_train.methods.base import Share, load_method
from cse_train.training.batches import Batches, UpcomingBatches, words_of
from cse_train.training.loop import train


@pytest.fixture
def opened(tiny_settings: Callable[..., dict], text_file: Path) -> Callable[..., Batches]:
    """Batches of the text file whose `collate` gives the share itself."""

    def open_(**changes: object) -> Batches:
        run = parse_run(tiny_settings("simcse", **changes))
        batches = Batches.open(run, DataPaths(train_file=text_file), load_backbone(run.train.encoder))
        batches.collate = lambda share: share  # type: ignore[assignment,return-value]
        return batches

    return open_


def epoch_of(batches: Batches, epoch: int) -> list[np.ndarray]:
    first = epoch * batches.steps_per_epoch
    return [batches[first + i].batch_rows for i in range(batches.steps_per_epoch)]  # type: ignore[attr-defined]


def test_an_epoch_is_a_permutation_and_the_next_another(opened) -> None:
    batches = opened()
    one, two = (np.concatenate(epoch_of(batches, epoch)) for epoch in (0, 1))
    assert sorted(one) == sorted(two) == list(range(40)) and list(one) != list(two)
    assert np.array_equal(one, np.concatenate(epoch_of(opened(), 0)))


def test_ranks_share_a_batch_in_order(opened, monkeypatch: pytest.MonkeyPatch) -> None:
    whole: Share = opened()[3]
    monkeypatch.setattr(distributed, "size", lambda: 4)
    for rank in range(4):
        monkeypatch.setattr(distributed, "rank", lambda rank=rank: rank)
        mine = opened()[3]
        assert np.array_equal(mine.batch_rows, whole.rows)
        assert np.array_equal(mine.rows, whole.rows[2 * rank : 2 * rank + 2])


def test_words_are_counted_at_blanks(opened, text_file: Path) -> None:
    batches = opened(train_max_seq_length=64)
    words = [len(line.split()) for line in text_file.read_text().split("\n")]
    assert words_of(batches.store.column("text")).tolist() == words


@pytest.mark.parametrize("edges", ["6", "5,7,9"])
def test_t31_every_batch_is_of_one_bucket_and_shuffled_inside_it(opened, edges: str) -> None:
    batches = opened(train_length_buckets=edges, train_batch_size=4, train_max_seq_length=64)
    cuts = [int(edge) for edge in edges.split(",")]
    bucket = np.searchsorted(cuts, words_of(batches.store.column("text")))
    first, second = epoch_of(batches, 0), epoch_of(batches, 1)
    assert all(len(set(bucket[rows])) == 1 for rows in first + second)
    assert len(first) == sum(int((bucket == b).sum()) // 4 for b in set(bucket))
    assert len(set(np.concatenate(first))) == 4 * len(first), "a row comes once an epoch"
    assert [sorted(rows) for rows in first] != [sorted(rows) for rows in second]
    order = [int(bucket[rows[0]]) for rows in first]
    assert order != sorted(order), "buckets take turns"


@pytest.mark.parametrize("wrong", ["4,3", "0", "three", "", "3,3"])
def test_wrong_buckets_are_one_line(tiny_settings: Callable[..., dict], wrong: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_run(tiny_settings("simcse", train_length_buckets=wrong))
    assert refused.value.problems == [
        f"wrong buckets: train.length_buckets={wrong}; give rising word counts such as 3,4,5,6,7, or null"
    ]


def test_buckets_that_are_all_too_small(opened) -> None:
    with pytest.raises(ConfigError, match=r"has 40 rows in 9 buckets; give at least train.batch_size=8"):
        opened(train_length_buckets="4,5,6,7,8,9,10,11", train_max_seq_length=64)


def test_rows_that_a_method_leaves_out_are_never_drawn_and_counted(
    opened, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = load_method("simcse")
    odd = type("Odd", (real,), {"usable_rows": lambda config, store: np.arange(1, store.rows, 2)})
    monkeypatch.setattr("cse_train.training.batches.load_method", lambda name: odd)
    with caplog.at_level(logging.WARNING):
        batches = opened()
    assert set(np.concatenate(epoch_of(batches, 0))) <= set(range(1, 40, 2)) and batches.steps_per_epoch == 2
    assert caplog.messages == ["file: 20 of 40 rows left out"]


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
