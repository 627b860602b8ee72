"""What a slot makes of points, losses and silence, and when it gives its group's room away. No Ray is started."""

import time
from pathlib import Path

import pytest

from cluster.slots import slot as module
from cluster.slots.group_api import DoneEvent, PointEvent
from cluster.slots.slot import IdleTimer, Slot
from tests.cluster.jobs import slot_of, trial
from tests.run_values import point_of


def point(examples: int, index: int = 0) -> PointEvent:
    return PointEvent(index, point_of(examples))


@pytest.mark.parametrize(("gated", "answers"), [(True, ["proceed 7 0", "proceed 7 1"]), (False, [])])
def test_only_ranks_that_wait_are_answered(gated, answers):
    slot = slot_of(gated=gated)
    slot.group.coming = [point(32)]
    assert slot.step()["state"] == "running" and slot.group.calls == ["submit from None"]
    slot.group.coming = [point(64, 1), DoneEvent(None)]
    assert [each.examples for each in slot.step()["points"]] == [64], "the last point is told with the end"
    assert slot.group.calls[1:] == answers


def test_silence_after_the_last_point_is_news_of_what_was_judged():
    """Tune would take 64 examples for a rung, and stop a run that has none left to train."""
    slot = slot_of(gated=True)
    slot.group.coming = [point(32), point(64, 1)]
    slot.step()
    silent = slot.step()
    assert (silent["examples"], silent["state"]) == (32, "running")
    assert [each.examples for each in silent["points"]] == [64]
    slot.group.coming = [DoneEvent(None)]
    end = slot.step()
    assert (end["examples"], end["done"]) == (64, True)


def slot_that_loses(*causes: str, max_retries: int) -> tuple[Slot, list[dict]]:
    """A slot whose group is lost once for each cause; and what it answered."""
    slot = slot_of(max_retries=max_retries)
    return slot, [slot._handle_loss("rank 0 is gone", cause) for cause in causes]


@pytest.mark.parametrize(
    ("causes", "reason"),
    [
        (["workers", "workers"], "workers lost 2 times: rank 0 is gone"),
        (["nodes", "nodes"], "nodes lost 2 times: rank 0 is gone"),
        (["machine", "machine"], "machine failed 2 times: rank 0 is gone"),
        (["nodes", "workers", "workers"], "nodes lost 1 times and workers lost 2 times: rank 0 is gone"),
    ],
)
def test_each_cause_has_its_own_number_of_times(causes, reason):
    _, answers = slot_that_loses(*causes, max_retries=1)
    assert [answer["state"] for answer in answers] == ["running"] * (len(causes) - 1) + ["lost"]
    assert answers[-1]["reason"] == reason and answers[-1]["done"]
    assert answers[0]["retried"] == ("node lost: " if causes[0] == "nodes" else "") + "rank 0 is gone"


def test_a_run_that_goes_on_between_two_losses_is_not_given_up():
    slot, _ = slot_that_loses("nodes", max_retries=1)
    for examples in (10, 20, 30):
        slot.examples = examples
        assert slot._handle_loss("preempted", "nodes")["state"] == "running"
    assert slot._handle_loss("preempted", "nodes")["state"] == "lost"


def test_a_slot_that_loses_two_runs_rests_and_keeps_the_processes_of_a_sick_machine():
    slot, _ = slot_that_loses("machine", max_retries=0)
    assert slot.quarantine.left_s < 0 and slot.group.calls.count("abort") == 1
    slot.reset_config(trial(signature="another"))
    assert slot._handle_loss("CUDA error", "machine")["state"] == "lost"
    assert slot.quarantine.left_s > 0 and slot.holds_ranks and slot.group.calls.count("abort") == 1


def test_lost_nodes_are_no_reason_to_rest():
    slot, _ = slot_that_loses("nodes", max_retries=0)
    slot.reset_config(trial(signature="another"))
    assert slot._handle_loss("gone", "nodes")["state"] == "lost" and slot.quarantine.left_s < 0


def test_a_step_without_news_lasts_as_long_as_its_setting_and_looks_after_the_group_meanwhile():
    slot, looks = slot_of(quiet_s=0.2), []
    slot.group.events, slot.group.lost = (lambda seconds: time.sleep(0.02) or []), lambda: looks.append("look")
    begun = time.monotonic()
    assert slot.step()["state"] == "running"
    assert time.monotonic() - begun >= 0.2 and len(looks) >= 2


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Slot:
    """A slot that Tune keeps, and soon does not call."""
    slot = slot_of(folder=tmp_path, gated=True)
    monkeypatch.setattr(module, "SLOT_IDLE_SECONDS", 0.05)
    monkeypatch.setattr(module, "IDLE_JOB_SECONDS", 0.05)
    return slot


def until_closed(slot: Slot) -> list[str]:
    end = time.monotonic() + 5
    while "close" not in slot.group.calls and time.monotonic() < end:
        time.sleep(0.01)
    return slot.group.calls


def test_the_room_is_given_away_after_a_run_that_is_done(kept: Slot) -> None:
    kept.group.coming = [DoneEvent(None)]
    assert kept.step()["done"]
    assert until_closed(kept) == ["submit from None", "close"]


def test_the_room_is_given_away_after_a_run_that_was_stopped_at_its_last_report(kept: Slot) -> None:
    """Tune says nothing to the slot of such a run as long as it has no other for it."""
    kept.group.coming = [point(32)]
    assert kept.step()["examples"] == 32
    assert until_closed(kept) == ["submit from None", "stop 7", "close"]
    kept.reset_config(trial(folder=Path("/nowhere")))
    assert kept.group.calls[3:5] == ["stop 7", "submit from None"]


def test_a_run_in_hand_goes_on_from_its_checkpoint_and_no_worker_counts_as_lost(kept: Slot, tmp_path: Path) -> None:
    kept.group.coming = [point(32)]
    kept.step()
    until_closed(kept)
    (tmp_path / "last").mkdir()
    (tmp_path / "last" / "state").touch()
    kept.group.coming = [point(32), point(64), DoneEvent(None)]
    ended = kept.step()
    assert (ended["state"], [each.examples for each in ended["points"]]) == ("done", [64])
    assert kept.group.calls[3] == f"submit from {tmp_path}" and not str(kept.losses)


def test_a_call_that_comes_at_the_last_moment_keeps_the_group(kept: Slot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_JOB_SECONDS", 60.0)
    kept.step()
    kept.step()
    kept.idle_timer._expire(calls=2)  # the first step's timer, which fired while the second began
    assert kept.group.calls == ["submit from None"]
    kept.idle_timer._expire(calls=3)
    assert kept.group.calls[1:] == ["stop 7", "close"]


def test_an_end_that_comes_first_is_the_last_word() -> None:
    calls: list[str] = []
    timer = IdleTimer(lambda: calls.append("idle"))
    with timer.call(lambda: 0.05):
        pass
    timer.end()
    time.sleep(0.2)
    assert calls == []
