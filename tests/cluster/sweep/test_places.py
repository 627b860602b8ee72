"""Where slots live, how their number follows nodes, and each driver's share of a full cluster."""

import dataclasses
import math
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from ray.tune.experiment import Trial

from analysis.ledger import Ledger
from analysis.ledger.cluster_log import Driver, remove_driver, write_driver
from cluster.runtime.options import SweepOptions
from cluster.runtime.resources import HEAD_RESOURCE, SLOT, Node
from cluster.sweep import fair_share, places
from cluster.sweep.fair_share import TURN_SECONDS, FairShare, fill, most_runs
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


def driver(owner: str, wanted: int | None = None, slots: int = 4, **facts) -> Driver:
    wanted = slots if wanted is None else wanted
    given = {"cluster": "one", "sweeps": ("E7",), "most": slots, "running": 0, "priority": 1, "cap": None, **facts}
    return Driver(owner=owner, slots=slots, wanted=wanted, **given)


def numbers(*drivers: Driver, turn: int = 0) -> list[int]:
    """What each of the drivers finds for itself."""
    return [most_runs(each, [other for other in drivers if other is not each], turn * TURN_SECONDS) for each in drivers]


@pytest.mark.parametrize(
    ("drivers", "expected"),
    [
        ([driver("anna@h:1")], [4]),
        ([driver("anna@h:1"), driver("ben@h:2")], [2, 2]),
        ([driver("anna@h:1", priority=3), driver("ben@h:2")], [3, 1]),
        # Who wants less leaves the rest to the others.
        ([driver("anna@h:1", wanted=1), driver("ben@h:2")], [1, 3]),
        ([driver("anna@h:1", wanted=0, priority=9), driver("ben@h:2")], [0, 4]),
        # A second sweep gives a user nothing more.
        ([driver("anna@h:1"), driver("anna@h:2"), driver("ben@h:3")], [1, 1, 2]),
        # A cap binds on an empty cluster too, over all drivers and clusters of its user, and the others get the rest.
        ([driver("anna@h:1", cap=1), driver("ben@h:2")], [1, 3]),
        ([driver("anna@h:1", cap=3)], [3]),
        ([driver("anna@h:1", cap=2), driver("anna@h:2", cluster="two"), driver("ben@h:3")], [1, 1, 3]),
        # Clusters are shared each for itself.
        ([driver("anna@h:1"), driver("ben@h:2", cluster="two")], [4, 4]),
        # A run of ben's fills half of the cluster: half a cluster is one of his and four of anna's.
        ([driver("anna@h:1", slots=8), driver("ben@h:2", slots=2)], [4, 1]),
    ],
)
def test_shares_are_what_one_computes_by_hand(drivers, expected):
    for turn in range(5):
        assert numbers(*drivers, turn=turn) == expected


@pytest.mark.parametrize("priorities", [(1, 1), (3, 1), (5, 2, 1), (1, 1, 1, 1, 1)])
@pytest.mark.parametrize("slots", [1, 3, 8])
def test_parts_of_a_slot_go_by_turns_and_no_slot_is_left_over_or_given_twice(priorities, slots):
    drivers = [driver(f"user{at}@h:{at}", slots=slots, priority=p) for at, p in enumerate(priorities)]
    turns = [numbers(*drivers, turn=turn) for turn in range(200)]
    assert {sum(turn) for turn in turns} == {slots}
    for at, priority in enumerate(priorities):
        mean, share = sum(turn[at] for turn in turns) / len(turns), slots * priority / sum(priorities)
        assert mean == pytest.approx(share, abs=0.02)
        assert {turn[at] for turn in turns} <= {math.floor(share), math.ceil(share)}


def test_fill_gives_nobody_more_than_is_wanted():
    assert fill(10, [2, 20, 20], [1, 1, 3]) == [2, 2, 6]
    assert fill(10, [1, 2], [1, 1]) == [1, 2]
    assert fill(10, [], []) == []


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.open(tmp_path / "ledger.db")


def share_of(ledger: Ledger, mine: Driver, room: list[bool]) -> list[int]:
    """What the driver was told, look by look, while the cluster has room or not."""
    told: list[int] = []
    given = iter(room)
    share = FairShare(ledger, lambda: mine, lambda: next(given), told.append)
    for _ in room[1:]:
        share._look()
    return told


def test_room_that_nobody_takes_is_taken_beyond_the_share_but_never_beyond_the_cap(ledger):
    write_driver(ledger, driver("ben@h:2"))
    looks = math.ceil(fair_share.SPARE_ROOM_SECONDS / fair_share.SHARE_POLL_SECONDS)
    full = driver("anna@h:1", running=2)
    assert share_of(ledger, full, [True] * looks) == [2] * (looks - 1) + [3]
    assert share_of(ledger, full, [True, False] * looks) == [2] * 2 * looks
    assert set(share_of(ledger, dataclasses.replace(full, cap=2), [True] * 2 * looks)) == {2}


def test_drivers_see_each_other_in_the_ledger_and_one_that_is_silent_counts_no_more(ledger, monkeypatch):
    anna, ben = driver("anna@h:1"), driver("ben@h:2", running=3, sweeps=("E7", "S3"))
    assert write_driver(ledger, anna)[0] == []
    others, now = write_driver(ledger, ben)
    assert others == [anna] and now > 1e9
    assert write_driver(ledger, anna)[0] == [ben]
    remove_driver(ledger, ben.owner)
    assert write_driver(ledger, anna)[0] == []
    write_driver(ledger, ben)
    monkeypatch.setattr("analysis.ledger.cluster_log.SILENCE_SECONDS", -1.0)
    assert write_driver(ledger, anna)[0] == []


def test_a_spoilt_word_of_a_driver_counts_as_none(ledger):
    anna, ben = driver("anna@h:1"), driver("ben@h:2")
    write_driver(ledger, ben)
    for text in ("{", "[]", "{}", '{"at": "now"}', '{"at": 1e300}'):
        with ledger._engine.begin() as connection:
            connection.exec_driver_sql("update cse_meta set value = ? where key like 'driver:ben%'", (text,))
        assert write_driver(ledger, anna)[0] == []
        write_driver(ledger, ben)
