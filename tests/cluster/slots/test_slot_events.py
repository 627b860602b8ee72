"""What a slot makes of points, losses and silence: its events, health, mailbox and process. No Ray is started."""

import asyncio
import logging
import os
import random
import sys
import time
import warnings
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cluster.slots import mailbox
from cluster.slots import slot as module
from cluster.slots.group_api import DoneEvent, ErrorEvent, Job, PointEvent
from cluster.slots.health import FIRST_QUARANTINE_SECONDS, LONGEST_QUARANTINE_SECONDS, STUCK_SECONDS, Pace, Quarantine
from cluster.slots.mailbox import Mailbox, RankFacts
from cluster.slots.process_state import job_log, process_settings
from cluster.slots.slot import IdleTimer, Slot
from tests.cluster.jobs import job, slot_of, trial
from tests.run_values import outcome_of, point_of


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


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_one_run_that_is_lost_again_and_again_is_no_reason_to_rest() -> None:
    quarantine = Quarantine(Clock())
    for _ in range(5):
        quarantine.lost("a")
    assert quarantine.left_s < 0


def test_each_rest_without_a_good_run_between_is_twice_as_long_up_to_a_limit() -> None:
    clock = Clock()
    quarantine, rests = Quarantine(clock), []
    quarantine.lost("a")
    for signature in "bcdefg":
        quarantine.lost(signature)
        rests.append(quarantine.left_s)
        clock.now += quarantine.left_s
        assert quarantine.left_s == 0
    assert rests == [
        FIRST_QUARANTINE_SECONDS,
        600.0,
        1200.0,
        2400.0,
        LONGEST_QUARANTINE_SECONDS,
        LONGEST_QUARANTINE_SECONDS,
    ]


def test_a_run_that_ends_in_order_makes_the_slot_healthy_again() -> None:
    quarantine = Quarantine(Clock())
    quarantine.lost("a")
    quarantine.went_well()
    quarantine.lost("b")
    assert quarantine.left_s < 0


def test_a_job_is_stuck_after_twenty_of_its_own_gaps_and_ten_minutes() -> None:
    clock = Clock()
    pace = Pace(clock)
    assert pace.stuck() == ""
    for _ in range(4):
        pace.point()
        clock.now += 60
    clock.now += 1140
    assert pace.stuck() == ""  # the last point is 1,200 s away, which is 20 gaps
    clock.now += 1
    assert pace.stuck() == "no dev point for 1201 s, where 60 s lay between two before"


def test_short_gaps_give_a_job_ten_minutes_and_a_retry_gives_it_any_time() -> None:
    clock = Clock()
    pace = Pace(clock)
    for _ in range(3):
        pace.point()
        clock.now += 1
    clock.now += STUCK_SECONDS - 1
    assert pace.stuck() == ""
    clock.now += 1
    assert pace.stuck()
    pace.pause()
    assert pace.stuck() == ""


@pytest.mark.parametrize("points", [0, 1])
def test_before_its_second_point_a_job_is_held_to_the_slowest_finished_run(points: int) -> None:
    clock = Clock()
    pace = Pace(clock, slowest_s=300.0)
    clock.now += 10_000  # its group waits for room
    assert not pace.is_begun and pace.stuck() == ""
    pace.begin()
    for _ in range(points):
        clock.now += 10
        pace.point()
    clock.now += 1500
    assert pace.stuck() == ""
    clock.now += 1
    assert pace.stuck() == "no dev point for 1501 s, where the slowest finished run took 300 s"


def test_where_nothing_has_finished_a_long_silence_is_said() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.begin()
    clock.now += STUCK_SECONDS
    assert pace.doubt() == ""
    clock.now += 1
    assert pace.doubt().startswith("no dev point for 10 min, and no finished run") and pace.stuck() == ""
    pace.point()
    assert pace.doubt() == ""


def run(story: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(story, 10))


async def opened(size: int = 2, given: Job | None = None) -> tuple[Mailbox, int, int]:
    box = Mailbox()
    generation = await box.open(size)
    return box, generation, await box.submit(given or job())


def test_every_rank_pulls_the_same_job_and_waits_for_the_next(monkeypatch):
    monkeypatch.setattr(mailbox, "LONG_POLL_SECONDS", 0.05)

    async def story():
        first, second = job(signature="a"), job(signature="b")
        box, generation, number = await opened(given=first)
        for _ in range(2):
            assert await box.next_job(generation, 0) == ("job", number, first)
        assert (await box.next_job(generation, number))[0] == "wait"
        late = asyncio.create_task(box.next_job(generation, number))
        await asyncio.sleep(0)
        await box.finish(generation, number, 0, outcome_of())
        await box.finish(generation, number, 1, None)
        following = await box.submit(second)
        assert await late == ("job", following, second)

    run(story())


def test_a_rank_that_is_through_does_not_get_the_same_job_again_and_done_waits_for_the_last():
    async def story():
        box, generation, number = await opened()
        await box.finish(generation, number, 0, outcome_of(best=3.0))
        assert await box.take_events(0.01) == []
        assert not await box.idle(0.01)
        await box.finish(generation, number, 1, None)
        assert await box.take_events(0.01) == [DoneEvent(outcome_of(best=3.0))]
        assert await box.idle(0.01)

    run(story())


def test_a_stop_is_one_decision_for_all_ranks_at_the_same_report():
    async def story():
        box, generation, number = await opened()
        assert not await box.report(generation, number, 0, 0, point_of(1))
        await box.stop(number)
        assert not await box.report(generation, number, 1, 0, point_of(1))
        assert await box.report(generation, number, 1, 1, point_of(1))
        assert await box.report(generation, number, 0, 1, point_of(1))

    run(story())


def test_a_gated_report_waits_for_the_slot():
    async def story():
        box, generation, number = await opened(given=job(gated=True))
        asked = [asyncio.create_task(box.report(generation, number, rank, 0, point_of(1))) for rank in (0, 1)]
        await asyncio.sleep(0.02)
        assert not any(task.done() for task in asked)
        await box.proceed(number, 0)
        await box.stop(number)
        assert [await task for task in asked] == [False, False], "an answer is given once"
        assert [await box.report(generation, number, rank, 1, point_of(1)) for rank in (0, 1)] == [True, True]

    run(story())


def test_points_come_from_rank_0_alone_and_in_order():
    async def story():
        box, generation, number = await opened()
        for index in range(3):
            for rank in (1, 0):
                await box.report(generation, number, rank, index, point_of(index))
        events = await box.take_events(0.01)
        assert [event.point.examples for event in events] == [0, 1, 2]

    run(story())


def test_ranks_of_a_dead_generation_are_told_to_leave_and_cannot_report():
    async def story():
        box, old, number = await opened()
        watcher = asyncio.create_task(box.wait_end(old))
        waiting = asyncio.create_task(box.next_job(old, number))
        await asyncio.sleep(0)
        await box.end(old, "aborted")
        assert await watcher == "aborted"
        assert (await waiting)[0] == "leave"
        new = await box.open(2)
        following = await box.submit(job())
        await box.post(old, number, ErrorEvent(cause="run", reason="late", rank=1))
        assert await box.report(old, number, 0, 0, point_of(1))
        assert await box.take_events(0.01) == []
        assert (await box.next_job(new, 0))[1] == following

    run(story())


def test_closing_lets_the_job_in_hand_finish_and_says_leave_after_it():
    async def story():
        box, generation, number = await opened(1)
        await box.end(generation, "closed")
        await box.finish(generation, number, 0, outcome_of())
        assert await box.take_events(0.01) == [DoneEvent(outcome_of())]
        assert (await box.next_job(generation, number))[0] == "leave"

    run(story())


def test_errors_keep_their_order_and_a_rank_that_cannot_serve_says_so_at_once():
    async def story():
        box, generation, number = await opened()
        await box.post(generation, number, ErrorEvent(cause="run", reason="first", rank=1))
        await box.post(generation, number, ErrorEvent(cause="run", reason="second"))
        assert [event.reason for event in await box.take_events(0.01)] == ["first", "second"]
        await box.hello(generation, 0, RankFacts(pid=1, host="a", node="n", actor=None, problem="different code: x"))
        assert await box.take_events(0.01) == [ErrorEvent(cause="setup", reason="different code: x")]

    run(story())


def vandalise() -> None:
    torch.set_num_threads(2)
    torch.set_float32_matmul_precision("medium")
    torch.set_grad_enabled(False)
    torch.set_default_dtype(torch.float64)
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = True
    torch.backends.mkldnn.matmul.fp32_precision = "bf16"
    torch.manual_seed(99)
    np.random.seed(99)
    random.seed(99)
    warnings.simplefilter("ignore")
    os.environ["LEFT_BEHIND"] = "1"
    os.chdir("/")


def state() -> list[object]:
    return [
        torch.get_num_threads(),
        torch.get_float32_matmul_precision(),
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        torch.backends.cudnn.benchmark,
        torch.backends.mkldnn.matmul.fp32_precision,
        torch.get_rng_state().tolist(),
        np.random.get_state()[1].tolist(),
        random.getstate(),
        dict(os.environ),
        Path.cwd(),
        list(warnings.filters),
    ]


@pytest.mark.parametrize("failing", [False, True])
def test_whatever_a_job_changes_is_put_back_also_when_it_fails(failing):
    before = state()
    try:
        with process_settings(threads=1, seed=3):
            vandalise()
            if failing:
                raise KeyError("x")
    except KeyError:
        assert failing
    assert state() == before


def test_a_job_starts_from_the_same_state_whatever_came_before():
    def draws() -> list[float]:
        with process_settings(threads=1, seed=3):
            assert torch.is_grad_enabled() and torch.get_num_threads() == 1
            return [torch.rand(1).item(), np.random.rand(), random.random()]

    first = draws()
    with process_settings(threads=1, seed=4):
        vandalise()
    assert draws() == first


def test_a_jobs_words_go_to_its_log_alone(tmp_path, capsys):
    handlers = list(logging.getLogger().handlers)
    path = tmp_path / "logs" / "rank0.log"
    with job_log(path):
        print("printed")
        logging.getLogger("x").info("logged")
    with job_log(path):
        print("again")
    assert capsys.readouterr().out == ""
    assert [word in path.read_text() for word in ("printed", "logged", "again")] == [True] * 3
    assert logging.getLogger().handlers == handlers


def test_a_log_has_its_beginning_and_its_newest_lines_and_no_more(tmp_path, monkeypatch):
    """A job that prints without end would fill the disk of all; what it said last is why it failed."""
    monkeypatch.setattr("cluster.slots.process_state.LOG_CHARACTERS", 10_000)
    for attempt in range(2):
        with job_log(tmp_path / "rank0.log"):
            for number in range(5_000):
                print(f"attempt {attempt} line {number}")
            print("x" * 50_000)
            print("why it failed", file=sys.stderr)
    said = (tmp_path / "rank0.log").read_text()
    assert len(said) < 11_000 and said.startswith("attempt 0 line 0\n") and said.endswith("why it failed\n")
    assert "\n... cut here: a log has 10000 characters at most ...\n" in said
