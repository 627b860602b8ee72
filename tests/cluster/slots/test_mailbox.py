import asyncio
from collections.abc import Coroutine
from typing import Any

from cluster.slots import mailbox
from cluster.slots.group_api import DoneEvent, ErrorEvent, Job
from cluster.slots.mailbox import Mailbox, RankFacts
from tests.cluster.jobs import job
from tests.run_values import outcome_of, point_of


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
