"""The one channel between a slot and the ranks of its worker group. No control message is a torch collective.

A generation is one worker group's life. A rank of a dead generation is told so at its next call and leaves.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

LONG_POLL_S = 20.0

Reply = tuple[Literal["job", "wait", "leave"], int, dict[str, Any] | None]
Ended = Literal["open", "closed", "aborted"]
T = TypeVar("T")


@dataclass
class Job:
    """What is known of the job in hand."""

    number: int
    payload: dict[str, Any]
    stopping: bool = False
    decisions: dict[int, bool] = field(default_factory=dict)
    """Report index -> whether all ranks stop there; fixed once."""
    finished: set[int] = field(default_factory=set)
    ended: bool = False


class Mailbox:
    """State of one slot's channel; `actor()` wraps it for Ray. All methods run on one event loop."""

    def __init__(self, name: str = "mailbox") -> None:
        self._name = name
        self.generation = 0
        self.ended: Ended = "open"
        self.size = 0
        self.present: dict[int, dict[str, Any]] = {}
        self.job: Job | None = None
        self.numbers = 0
        self.events: list[dict[str, Any]] = []
        self.problem: str | None = None
        self.changed = asyncio.Condition()

    def __repr__(self) -> str:
        return self._name

    # The slot's side

    async def open(self, size: int) -> int:
        """Begin a generation of `size` ranks and return its number; the one before is aborted."""
        self.generation += 1
        self.size, self.present, self.ended, self.job = size, {}, "open", None
        self.events, self.problem = [], None
        await self._wake()
        return self.generation

    async def end(self, generation: int, how: Ended) -> None:
        """`closed`: ranks leave after the job in hand; `aborted`: their processes end now, also out of a collective."""
        if generation == self.generation and self.ended != "aborted":
            self.ended = how
            await self._wake()

    async def submit(self, payload: dict[str, Any]) -> int:
        """Hand every rank a job; returns its number."""
        self.numbers += 1
        self.job = Job(self.numbers, payload)
        self.events = []
        await self._wake()
        return self.numbers

    async def take_events(self, timeout_s: float) -> list[dict[str, Any]]:
        """What ranks posted about the job in hand, in order of arrival; empty after `timeout_s` without any."""
        await self._until(lambda: bool(self.events or self.problem), timeout_s)
        taken, self.events = self.events, []
        if self.problem:
            return [{"kind": "error", "rank": 0, "cause": "setup", "reason": self.problem}]
        return taken

    async def decide(self, number: int, index: int, stop: bool) -> None:
        """Answer report `index` of a gated job, once."""
        if self.job and self.job.number == number:
            self.job.decisions.setdefault(index, stop)
            await self._wake()

    async def stop(self, number: int) -> None:
        """Let all ranks stop at the first report that is not answered yet."""
        if self.job and self.job.number == number:
            self.job.stopping = True
            await self._wake()

    async def idle(self, timeout_s: float) -> bool:
        """Wait until every rank has left the job in hand; False when some have not after `timeout_s`."""
        return await self._until(lambda: self.job is None or len(self.job.finished) >= self.size, timeout_s)

    async def ranks(self) -> dict[int, dict[str, Any]]:
        """What each rank that said hello told of itself (pid, host, node, actor)."""
        return dict(self.present)

    # The ranks' side

    async def hello(self, generation: int, rank: int, facts: dict[str, Any]) -> None:
        """A rank is up; `facts["problem"]` says why it cannot serve, if so."""
        if self._alive(generation):
            self.present[rank] = facts
            self.problem = self.problem or facts.get("problem")
            await self._wake()

    async def next_job(self, generation: int, rank: int, after: int) -> Reply:
        """The job after number `after`; `wait` when there is none yet (ask again); `leave` when the group ends."""
        await self._until(lambda: not self._alive(generation) or self._pending(after) is not None, LONG_POLL_S)
        job = self._pending(after)
        if not self._alive(generation):
            return ("leave", after, None)
        return ("job", job.number, job.payload) if job else ("wait", after, None)

    async def report(self, generation: int, number: int, rank: int, index: int, point: dict[str, Any]) -> bool:
        """Post a dev point; True when all ranks stop here. A gated job waits for the slot's decision."""
        if not self._current(generation, number):
            return True
        job = self.job
        assert job is not None
        if rank == 0:
            self.events.append({"kind": "point", "index": index, "point": point})
            await self._wake()
        if not job.payload.get("gated"):
            return job.decisions.setdefault(index, job.stopping)
        await self._until(lambda: index in job.decisions or job.stopping or not self._current(generation, number), None)
        return job.decisions.setdefault(index, True)

    async def post(self, generation: int, number: int, event: dict[str, Any]) -> None:
        """Post anything else about the job: a score, a log line."""
        if self._current(generation, number):
            self.events.append(event)
            await self._wake()

    async def finish(self, generation: int, number: int, rank: int, outcome: dict[str, Any] | None) -> None:
        """A rank is through with the job; rank 0's outcome is the job's, told when the last rank is through."""
        if not self._current(generation, number):
            return
        job = self.job
        assert job is not None
        job.finished.add(rank)
        if outcome is not None:
            job.payload["outcome"] = outcome
        if len(job.finished) == self.size and not job.ended:
            job.ended = True
            self.events.append({"kind": "done", "outcome": job.payload.get("outcome")})
        await self._wake()

    async def fail(self, generation: int, number: int, rank: int, error: dict[str, Any]) -> None:
        """A rank's error. Every error is kept in order; the slot shows the first that is not a mere echo of another."""
        if self._current(generation, number):
            self.events.append({"kind": "error", "rank": rank, **error})
            await self._wake()

    async def wait_end(self, generation: int) -> Ended:
        """Long poll of a rank's watcher: how its group ended, or `open` after a while (ask again)."""
        await self._until(lambda: not self._alive(generation), LONG_POLL_S)
        return self.ended if generation == self.generation else "aborted"

    # Both

    def _alive(self, generation: int) -> bool:
        return generation == self.generation and self.ended == "open"

    def _current(self, generation: int, number: int) -> bool:
        known = self.job is not None and self.job.number == number
        return known and generation == self.generation and self.ended != "aborted"

    def _pending(self, after: int) -> Job | None:
        return self.job if self.job and self.job.number > after and not self.job.ended else None

    async def _wake(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    async def _until(self, condition: Callable[[], bool], timeout_s: float | None) -> bool:
        async with self.changed:
            waiting: Awaitable[bool] = self.changed.wait_for(condition)
            try:
                return await asyncio.wait_for(waiting, timeout_s)
            except TimeoutError:
                return False


def start_mailbox(name: str) -> Any:
    """A mailbox actor on this node, shown as `name`; it takes no CPU and dies with its maker."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return ray.remote(num_cpus=0, scheduling_strategy=here, max_concurrency=1000)(Mailbox).remote(name)
