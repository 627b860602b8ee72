"""Two ranks of a process group score a set, and find what one process finds."""

import multiprocessing
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist

from cse_train.evaluate.vectors import EmbeddedPairs


def require_ranks_as_one(score: Callable[[], EmbeddedPairs], folder: Path) -> None:
    """`score` is called here and on each rank, a fork of this process."""
    alone = score()
    fork = multiprocessing.get_context("fork")
    ranks = [fork.Process(target=_score_on_rank, args=(rank, score, folder)) for rank in range(2)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(60)
    assert [process.exitcode for process in ranks] == [0, 0]
    for rank in range(2):
        found = np.load(folder / f"{rank}.npz")
        np.testing.assert_allclose(found["cosines"], alone.cosines, atol=1e-6)
        assert found["spearman"] == pytest.approx(alone.spearman, abs=1e-6)


def _score_on_rank(rank: int, score: Callable[[], EmbeddedPairs], folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=2)
    found = score()
    np.savez(folder / f"{rank}.npz", cosines=found.cosines, spearman=found.spearman)
    dist.destroy_process_group()
