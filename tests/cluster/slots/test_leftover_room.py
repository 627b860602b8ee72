"""A worker group whose start fails half way gives its CPUs back, on real Ray."""

import os
import time
from pathlib import Path

import pytest

from cluster.runtime.code_version import code_digest
from cluster.slots import worker_group
from cluster.slots.worker_group import WorkerGroup
from tests.cluster.jobs import group_settings, job


def placement_groups() -> set[str]:
    """IDs of those that hold or wait for room."""
    from ray.util import placement_group_table

    return {name for name, facts in placement_group_table().items() if facts["state"] != "REMOVED"}


@pytest.mark.slow
@pytest.mark.usefixtures("ray_cluster")
def test_a_group_that_fails_while_its_ranks_find_each_other_leaves_no_placement_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = placement_groups()
    monkeypatch.setattr(worker_group, "backend", lambda gpus: "nosuch")
    group = WorkerGroup(9, "leftover")
    group.submit(group_settings(code_digest(), storage=tmp_path), job(folder=tmp_path))
    assert group.life is not None and group.life.thread is not None
    group.life.thread.join(120)
    assert "_setup_torch_process_group" in (group.lost() or ""), "the ranks came up and failed there"
    group.abort()
    end = time.monotonic() + 20
    while (left := placement_groups() - before) and time.monotonic() < end:
        time.sleep(0.2)
    assert not left


def test_callbacks_that_somebody_asked_for_stay_and_ours_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(worker_group.CALLBACKS, "mine.Callback")
    worker_group.add_callbacks()
    worker_group.add_callbacks()
    assert os.environ[worker_group.CALLBACKS].split(",") == [*worker_group.TRAIN_CALLBACKS, "mine.Callback"]
