"""Where slots live, and how their number follows nodes that join and leave."""

import dataclasses
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from ray.tune.experiment import Trial

from cluster.runtime.options import SweepOptions
from cluster.runtime.resources import HEAD_RESOURCE, SLOT, Node
from cluster.sweep import places
from cluster.sweep.tune import InOrder

HEAD_NODE = Node(cpus=0, gpus=0, memory_gb=5.6, slots=1024, name="head", head=True)
WORKER = Node(cpus=16, gpus=8, memory_gb=64, slots=1024, name="worker")


def options(**changes) -> SweepOptions:
    return SweepOptions(storage=Path("x"), gpus_per_worker=1, **changes)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> list[Node]:
    """The nodes that there are; change them as a cluster would."""
    nodes = [HEAD_NODE, WORKER]
    monkeypatch.setattr(places, "cluster_nodes", lambda: list(nodes))
    monkeypatch.setattr(places, "NODE_POLL_SECONDS", 0.01)
    monkeypatch.setattr(places, "NODE_ARRIVAL_POLL_SECONDS", 0.01)
    return nodes


def test_slots_live_on_the_head_while_it_has_room_and_then_on_every_node(cluster: list[Node]) -> None:
    assert set(places.slot_bundle(options(), 8)) == {"memory", HEAD_RESOURCE, SLOT}
    cluster += [WORKER] * 7
    assert set(places.slot_bundle(options(), 64)) == {"memory", SLOT}
    cluster[:] = [dataclasses.replace(HEAD_NODE, memory_gb=0.1, slots=0), WORKER]
    assert set(places.slot_bundle(options(), 1)) == {"memory", SLOT}, "a head without places leaves them to the others"


def test_the_number_follows_nodes_that_join_and_leave(cluster: list[Node]) -> None:
    cluster += [WORKER] * 7
    done, changes = threading.Event(), []
    changed = threading.Event()

    def resize(count: int, shape: str) -> None:
        changes.append((count, shape))
        changed.set()

    thread = threading.Thread(target=places.follow_nodes, args=(options(), 64, resize, done))
    thread.start()
    for nodes, slots in (([HEAD_NODE] + [WORKER] * 9, 72), ([HEAD_NODE] + [WORKER] * 3, 24)):
        changed.clear()
        cluster[:] = nodes
        assert changed.wait(10)
        assert changes[-1] == (slots, f"{slots} x 1 workers, isolation slot, limited by GPUs")
    changed.clear()
    cluster[:] = [HEAD_NODE]
    assert not changed.wait(0.3), "runs wait for nodes; their slots stay"
    done.set()
    thread.join(10)


def test_a_cluster_that_scales_from_zero_is_asked_for_nodes_and_waited_for(
    cluster: list[Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster[:] = [HEAD_NODE]
    asked: list[str] = []
    monkeypatch.setattr(places, "_ask_for_nodes", lambda options: asked.append("nodes") or cluster.append(WORKER))
    lines: list[str] = []
    places.wait_for_nodes(options(wait_for_nodes_s=30), threading.Event(), lines.append)
    assert asked == ["nodes"]
    assert lines == ["no node trains yet; asks for some and waits 0 min for them"]
    places.wait_for_nodes(options(), threading.Event(), lines.append)
    assert len(lines) == 1, "one that trains is not waited for"


def test_a_wait_for_nodes_ends_in_time_and_with_the_sweep(cluster: list[Node], monkeypatch: pytest.MonkeyPatch) -> None:
    cluster[:] = [HEAD_NODE]
    monkeypatch.setattr(places, "_ask_for_nodes", lambda options: None)
    places.wait_for_nodes(options(wait_for_nodes_s=0.05), threading.Event(), lambda line: None)
    over = threading.Event()
    over.set()
    places.wait_for_nodes(options(), over, lambda line: None)


def test_the_first_that_waits_is_begun_and_trials_that_are_over_are_not_looked_at() -> None:
    """Ray's own scheduler looks at every trial there was, twice at each event: a search of 100,000 runs crawls."""
    states = {"a_00003": Trial.RUNNING, "a_00009": Trial.PENDING, "a_00007": Trial.PENDING}
    live = [SimpleNamespace(trial_id=name, status=state) for name, state in states.items()]
    controller = SimpleNamespace(get_live_trials=lambda: live)  # no get_trials
    assert InOrder().choose_trial_to_run(controller) is live[2]
    live.clear()
    assert InOrder().choose_trial_to_run(controller) is None
