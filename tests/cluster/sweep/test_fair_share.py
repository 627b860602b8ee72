"""Shares of a full cluster and caps of users: what each driver may have, by hand and on average over turns."""

import dataclasses
import math
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from analysis.ledger.cluster_log import Driver
from cluster.sweep import fair_share
from cluster.sweep.fair_share import TURN_SECONDS, FairShare, fill, most_runs


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
    ledger.stand_beside(driver("ben@h:2"))
    looks = math.ceil(fair_share.SPARE_ROOM_SECONDS / fair_share.SHARE_POLL_SECONDS)
    full = driver("anna@h:1", running=2)
    assert share_of(ledger, full, [True] * looks) == [2] * (looks - 1) + [3]
    assert share_of(ledger, full, [True, False] * looks) == [2] * 2 * looks
    assert set(share_of(ledger, dataclasses.replace(full, cap=2), [True] * 2 * looks)) == {2}


def test_drivers_see_each_other_in_the_ledger_and_one_that_is_silent_counts_no_more(ledger, monkeypatch):
    anna, ben = driver("anna@h:1"), driver("ben@h:2", running=3, sweeps=("E7", "S3"))
    assert ledger.stand_beside(anna)[0] == []
    others, now = ledger.stand_beside(ben)
    assert others == [anna] and now > 1e9
    assert ledger.stand_beside(anna)[0] == [ben]
    ledger.leave(ben.owner)
    assert ledger.stand_beside(anna)[0] == []
    ledger.stand_beside(ben)
    monkeypatch.setattr("analysis.ledger.cluster_log.SILENCE_SECONDS", -1.0)
    assert ledger.stand_beside(anna)[0] == []


def test_a_spoilt_word_of_a_driver_counts_as_none(ledger):
    anna, ben = driver("anna@h:1"), driver("ben@h:2")
    ledger.stand_beside(ben)
    for text in ("{", "[]", "{}", '{"at": "now"}', '{"at": 1e300}'):
        with ledger._engine.begin() as connection:
            connection.exec_driver_sql("update cse_meta set value = ? where key like 'driver:ben%'", (text,))
        assert ledger.stand_beside(anna)[0] == []
        ledger.stand_beside(ben)
