"""A slot that Tune keeps and asks for nothing gives its group's room away. No Ray is started."""

import time
from pathlib import Path
from typing import Any

import pytest

from cluster.slots import slot as module
from cluster.slots.idle_timer import Idleness
from cluster.slots.slot import Slot


class Group:
    """Takes jobs, has what a test gives it to tell, and notes what it is asked."""

    def __init__(self, recycle_after: int, name: str) -> None:
        self.asked: list[str] = []
        self.told: list[dict[str, Any]] = []

    def submit(self, settings: object, payload: dict[str, Any]) -> int:
        self.asked.append(f"submit from {payload['resume_from']}")
        return 1

    def events(self, timeout_s: float) -> list[dict[str, Any]]:
        told, self.told = self.told, []
        return told

    def lost(self) -> None:
        return None

    def __getattr__(self, name: str) -> Any:
        return lambda *given: self.asked.append(name)


def configured(folder: Path) -> dict[str, Any]:
    settings = {"workers": 1, "cpus": 1, "gpus": 0, "timeout_s": 1, "storage": "/s", "digest": ""}
    job = {"folder": str(folder), "previous": [], "total_examples": 64, "gated": True}
    own = {"group_class": f"{__name__}:Group", "recycle_after": 9, "max_retries": 0, "quiet_s": 0.0, "name": "slot 1"}
    return {"job": job, "group": settings, **own}


@pytest.fixture
def slot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Slot:
    made = object.__new__(Slot)
    made.setup(configured(tmp_path))
    monkeypatch.setattr(module, "IDLE_S", 0.05)
    monkeypatch.setattr(module, "UNASKED_S", 0.05)
    return made


def point(examples: int) -> dict[str, Any]:
    return {"kind": "point", "index": 0, "point": {"examples": examples, "best": 1.0}}


def until_closed(slot: Slot) -> list[str]:
    end = time.monotonic() + 5
    while "close" not in slot.group.asked and time.monotonic() < end:
        time.sleep(0.01)
    return slot.group.asked


def test_after_a_run_that_is_done(slot: Slot) -> None:
    slot.group.told = [{"kind": "done", "outcome": {}}]
    assert slot.step()["done"]
    assert until_closed(slot) == ["submit from None", "close"]


def test_after_a_run_that_was_stopped_at_its_last_report(slot: Slot) -> None:
    """Tune says nothing to the slot of such a run as long as it has no other for it."""
    slot.group.told = [point(32)]
    assert slot.step()["examples"] == 32
    assert until_closed(slot) == ["submit from None", "stop", "close"]
    slot.reset_config(configured(Path("/nowhere")))
    assert slot.group.asked[3:5] == ["stop", "submit from None"]


def test_a_run_in_hand_goes_on_from_its_checkpoint_and_no_worker_counts_as_lost(slot: Slot, tmp_path: Path) -> None:
    slot.group.told = [point(32)]
    slot.step()
    until_closed(slot)
    (tmp_path / "last").mkdir()
    (tmp_path / "last" / "state").touch()
    slot.group.told = [point(32), point(64), {"kind": "done", "outcome": {}}]
    ended = slot.step()
    assert (ended["state"], [one["examples"] for one in ended["points"]]) == ("done", [64])
    assert slot.group.asked[3] == f"submit from {tmp_path}" and not slot.losses


def test_a_call_that_comes_at_the_last_moment_keeps_the_group(slot: Slot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNASKED_S", 60.0)
    slot.step()
    slot.step()
    slot.idleness._over(calls=2)  # the first step's timer, which fired while the second began
    assert slot.group.asked == ["submit from None"]
    slot.idleness._over(calls=3)
    assert slot.group.asked[1:] == ["stop", "close"]


def test_an_end_that_comes_first_is_the_last_word() -> None:
    told: list[str] = []
    idleness = Idleness(lambda: told.append("idle"))
    with idleness.asked(lambda: 0.05):
        pass
    idleness.end()
    time.sleep(0.2)
    assert told == []
