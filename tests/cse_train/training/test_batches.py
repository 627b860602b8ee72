"""Which rows meet in a batch: epochs, shares, length buckets (T31), rows that a method leaves out."""

import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cse_train import distributed
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import load_backbone
from cse_train.fields import ConfigError
from cse_train.methods.base import Share, load_method
from cse_train.training.batches import Batches, words_of


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
