"""A slot that Tune keeps and does not call gives its group's room away. No Ray is started."""

import time
from pathlib import Path
from typing import Any

import pytest

from cluster.slots import slot as module
from cluster.slots.group_api import DoneEvent, Event, GroupSettings, Job, PointEvent
from cluster.slots.slot import IdleTimer, Slot
from tests.cluster.jobs import job, run_of, slot_settings
from tests.run_values import point_of


class Group:
    """Takes jobs, reports the events that a test gives it, and notes the calls."""

    def __init__(self, recycle_after: int, name: str) -> None:
        self.calls: list[str] = []
        self.coming: list[Event] = []

    def submit(self, settings: GroupSettings, job: Job) -> int:
        self.calls.append(f"submit from {job.resume_from}")
        return 1

    def events(self, timeout_s: float) -> list[Event]:
        events, self.coming = self.coming, []
        return events

    def waits_for(self) -> str:
        return ""

    def lost(self) -> None:
        return None

    def has_ranks(self) -> bool:
        return False

    def __getattr__(self, name: str) -> Any:
        return lambda *given: self.calls.append(name)


def configured(folder: Path) -> dict[str, Any]:
    given = job(folder=folder, run=run_of(examples=64), gated=True)
    return {"job": given, "slot": slot_settings(group=f"{__name__}:Group")}


@pytest.fixture
def slot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Slot:
    made = object.__new__(Slot)
    made.setup(configured(tmp_path))
    monkeypatch.setattr(module, "SLOT_IDLE_SECONDS", 0.05)
    monkeypatch.setattr(module, "IDLE_JOB_SECONDS", 0.05)
    return made


def point(examples: int) -> PointEvent:
    return PointEvent(0, point_of(examples))


def until_closed(slot: Slot) -> list[str]:
    end = time.monotonic() + 5
    while "close" not in slot.group.calls and time.monotonic() < end:
        time.sleep(0.01)
    return slot.group.calls


def test_after_a_run_that_is_done(slot: Slot) -> None:
    slot.group.coming = [DoneEvent(None)]
    assert slot.step()["done"]
    assert until_closed(slot) == ["submit from None", "close"]


def test_after_a_run_that_was_stopped_at_its_last_report(slot: Slot) -> None:
    """Tune says nothing to the slot of such a run as long as it has no other for it."""
    slot.group.coming = [point(32)]
    assert slot.step()["examples"] == 32
    assert until_closed(slot) == ["submit from None", "stop", "close"]
    slot.reset_config(configured(Path("/nowhere")))
    assert slot.group.calls[3:5] == ["stop", "submit from None"]


def test_a_run_in_hand_goes_on_from_its_checkpoint_and_no_worker_counts_as_lost(slot: Slot, tmp_path: Path) -> None:
    slot.group.coming = [point(32)]
    slot.step()
    until_closed(slot)
    (tmp_path / "last").mkdir()
    (tmp_path / "last" / "state").touch()
    slot.group.coming = [point(32), point(64), DoneEvent(None)]
    ended = slot.step()
    assert (ended["state"], [each.examples for each in ended["points"]]) == ("done", [64])
    assert slot.group.calls[3] == f"submit from {tmp_path}" and not str(slot.losses)


def test_a_call_that_comes_at_the_last_moment_keeps_the_group(slot: Slot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_JOB_SECONDS", 60.0)
    slot.step()
    slot.step()
    slot.idle_timer._expire(calls=2)  # the first step's timer, which fired while the second began
    assert slot.group.calls == ["submit from None"]
    slot.idle_timer._expire(calls=3)
    assert slot.group.calls[1:] == ["stop", "close"]


def test_an_end_that_comes_first_is_the_last_word() -> None:
    calls: list[str] = []
    timer = IdleTimer(lambda: calls.append("idle"))
    with timer.call(lambda: 0.05):
        pass
    timer.end()
    time.sleep(0.2)
    assert calls == []
