"""Why a worker group is gone, when it is only waiting for room, and when it ends. No Ray is started."""

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from cluster.runtime.code_version import code_digest
from cluster.runtime.resources import Node
from cluster.slots import worker_group
from cluster.slots import worker_group as module
from cluster.slots.worker_group import WorkerGroup
from tests.cluster.jobs import group_settings, job


class WorkerGroupStartupTimeoutError(RuntimeError):
    """Bears the name of what Ray Train raises."""


class ControllerError(RuntimeError):
    def __init__(self, inner: Exception) -> None:
        super().__init__(f"Training failed due to controller error:\n{inner}")
        self.controller_failure = inner


def ended_group(error: Exception, monkeypatch, *, cpus: float = 2, nodes=("a",), ranks=()) -> WorkerGroup:
    """A group of two ranks, begun on the nodes a and b, whose Train run has ended; the cluster has `nodes` now."""
    group = object.__new__(WorkerGroup)
    group.life = SimpleNamespace(
        settings=group_settings(workers=2), error=error, nodes=frozenset("ab"), alive=lambda: False, start=begun.append
    )
    group.mailbox = "mailbox"
    group._waits_for, group._waits_since = "", 0.0
    begun.clear()
    monkeypatch.setattr(group, "ranks", lambda: dict(enumerate(SimpleNamespace(node=node) for node in ranks)))
    monkeypatch.setattr(module, "cluster_nodes", lambda: [Node(cpus=cpus, gpus=0, memory_gb=64, head=True)])
    monkeypatch.setattr(module, "_alive_nodes", lambda: frozenset(nodes))
    return group


begun: list[str] = []


def test_a_group_that_others_leave_no_room_begins_again_and_is_not_lost(monkeypatch):
    group = ended_group(ControllerError(WorkerGroupStartupTimeoutError("no room")), monkeypatch)
    assert group.lost() is None
    assert begun == ["mailbox"]


def test_a_group_that_no_longer_fits_into_the_cluster_waits_and_says_for_what_up_to_a_limit(monkeypatch):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(module.time, "monotonic", lambda: clock.now)
    group = ended_group(ControllerError(WorkerGroupStartupTimeoutError("no room")), monkeypatch, cpus=1)
    assert group.lost() is None and begun == ["mailbox"]
    assert group.waits_for().startswith("a run does not fit: workers=2")
    clock.now += 3600
    assert group.lost() is None and begun == ["mailbox"] * 2
    clock.now += 1
    assert (group.lost() or "").endswith("(waited 60 min)") and begun == ["mailbox"] * 2


def test_a_group_that_fits_again_waits_for_nothing(monkeypatch):
    group = ended_group(ControllerError(WorkerGroupStartupTimeoutError("no room")), monkeypatch, cpus=1)
    assert group.lost() is None and group.waits_for()
    monkeypatch.setattr(module, "cluster_nodes", lambda: [Node(cpus=2, gpus=0, memory_gb=64, head=True)])
    assert group.lost() is None and not group.waits_for()


def test_what_the_controller_met_is_the_reason(monkeypatch):
    group = ended_group(ControllerError(ValueError("one of the workers failed to initialise")), monkeypatch)
    assert group.lost() == "ValueError: one of the workers failed to initialise"


@pytest.mark.parametrize(
    ("nodes", "ranks", "lost"),
    [("ab", "ab", False), ("a", "ab", True), ("ab", "", False), ("a", "", True), ("a", "a", False)],
)
def test_a_node_is_lost_with_a_rank_or_before_any_rank_was_up(monkeypatch, nodes, ranks, lost):
    assert ended_group(ValueError(), monkeypatch, nodes=nodes, ranks=ranks).node_lost() is lost


def test_code_from_outside_shares_its_processes_with_no_other_run(monkeypatch):
    """Neither with a run of ours that follows nor with its own next one; what was there before is as good as new."""
    group, lives = WorkerGroup.__new__(WorkerGroup), []
    group.life, group.recycle_after, group.name, group.mailbox = None, 9, "g", None

    class Life(module._Life):
        def start(self, mailbox):
            lives.append(self)

        def alive(self):
            return True

    monkeypatch.setattr(module, "_Life", Life)
    monkeypatch.setattr(module, "_alive_nodes", frozenset)
    monkeypatch.setattr(group, "_call", lambda method, *given: 1)
    monkeypatch.setattr(group, "close", lambda: setattr(group, "life", None))
    ours, plug_in = job(), job(code={("method", "mine"): "digest"})
    suite = job(code={("suite", "norms"): "digest"})
    groups = [
        group.submit(group_settings(), each) and len(lives) for each in (ours, ours, plug_in, plug_in, ours, ours)
    ]
    assert groups == [1, 1, 1, 2, 3, 3]
    assert [group.submit(group_settings(), each) and len(lives) for each in (suite, ours)] == [3, 4]
    apart = job(code={("method", "train.py@1"): "digest"}, leaves_traces=False)
    group.submit(group_settings(), ours)
    assert [group.submit(group_settings(), each) and len(lives) for each in (apart, apart, ours)] == [4, 4, 4]


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
