"""Actor through which a slot and the ranks of its worker group talk; no control message is a torch collective.

A generation is one worker group's life. A rank of a dead generation learns of its end at its next call, and leaves.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from cluster.slots.group_api import DoneEvent, ErrorEvent, Event, Job, PointEvent
from cse_train.results import Outcome, Point

LONG_POLL_SECONDS = 20.0

Reply = tuple[Literal["job", "wait", "leave"], int, Job | None]
GroupEnd = Literal["open", "closed", "aborted"]


@dataclass(frozen=True, kw_only=True)
class RankFacts:
    """Process, node and health of a rank, sent when the rank is up."""

    pid: int
    host: str
    node: str
    actor: Any
    problem: str | None = None


@dataclass
class JobState:
    number: int
    job: Job
    stopping: bool = False
    decisions: dict[int, bool] = field(default_factory=dict)
    """Report index -> whether all ranks stop there; never changed once set."""
    finished: set[int] = field(default_factory=set)
    outcome: Outcome | None = None
    """Outcome of rank 0; None until it has finished, and for a job that only scores."""
    ended: bool = False


class Mailbox:
    """Channel between a slot and its ranks; all methods run on one event loop, so state needs no lock."""

    def __init__(self, name: str = "mailbox") -> None:
        self._name = name
        self.generation = 0
        self.ended: GroupEnd = "open"
        self.size = 0
        self.present: dict[int, RankFacts] = {}
        self.unsaved = set[int]()
        """Ranks of the generation that may still write checkpoints of what they trained."""
        self.job: JobState | None = None
        self.numbers = 0
        self.events: list[Event] = []
        self.problem: str | None = None
        self.changed = asyncio.Condition()

    def __repr__(self) -> str:
        return self._name

    # The slot's side

    async def open(self, size: int) -> int:
        """Begins a generation of `size` ranks and returns its number; the generation before it is aborted."""
        self.generation += 1
        self.size, self.present, self.ended, self.job = size, {}, "open", None
        self.unsaved = set()
        self.events, self.problem = [], None
        await self._wake()
        return self.generation

    async def end(self, generation: int, state: GroupEnd) -> None:
        """Ends a generation: `closed` lets ranks leave after their job, `aborted` ends their processes at once."""
        if generation == self.generation and self.ended != "aborted":
            self.ended = state
            await self._wake()

    async def submit(self, job: Job) -> int:
        self.numbers += 1
        self.job = JobState(self.numbers, job)
        self.events = []
        await self._wake()
        return self.numbers

    async def take_events(self, timeout_s: float) -> list[Event]:
        """Returns the ranks' events on the current job in order of arrival; empty after `timeout_s` without any."""
        await self._wait(lambda: bool(self.events or self.problem), timeout_s)
        events, self.events = self.events, []
        return [ErrorEvent(cause="setup", reason=self.problem)] if self.problem else events

    async def proceed(self, number: int, index: int) -> None:
        """Lets the ranks of a gated job go on after report `index`, unless they stop there already."""
        if self.job and self.job.number == number:
            self.job.decisions.setdefault(index, False)
            await self._wake()

    async def stop(self, number: int) -> None:
        """Makes all ranks stop at the first report that is not answered yet."""
        if self.job and self.job.number == number:
            self.job.stopping = True
            await self._wake()

    async def idle(self, timeout_s: float) -> bool:
        """Waits until every rank has left the current job; returns False when some have not after `timeout_s`."""
        return await self._wait(lambda: self.job is None or len(self.job.finished) >= self.size, timeout_s)

    async def all_saved(self, timeout_s: float) -> bool:
        return await self._wait(lambda: not self.unsaved, timeout_s)

    async def ranks(self) -> dict[int, RankFacts]:
        return dict(self.present)

    # The ranks' side

    async def hello(self, generation: int, rank: int, facts: RankFacts) -> None:
        if self._alive(generation):
            self.present[rank] = facts
            self.unsaved.add(rank)
            self.problem = self.problem or facts.problem
            await self._wake()

    async def next_job(self, generation: int, after: int) -> Reply:
        """Returns the job after number `after`, `wait` when there is none yet, `leave` when the group ends."""
        await self._wait(lambda: not self._alive(generation) or self._pending(after) is not None, LONG_POLL_SECONDS)
        state = self._pending(after)
        if not self._alive(generation):
            return ("leave", after, None)
        return ("job", state.number, state.job) if state else ("wait", after, None)

    async def report(self, generation: int, number: int, rank: int, index: int, point: Point) -> bool:
        """Posts a dev point; returns True when all ranks stop at it. A gated job waits for the slot's decision."""
        state = self._current(generation, number)
        if state is None:
            return True
        # Rank 0 speaks for all: data-parallel ranks report the same points.
        decisions = state.decisions
        if rank == 0:
            self.events.append(PointEvent(index, point))
            await self._wake()
        if not state.job.gated:
            return decisions.setdefault(index, state.stopping)
        await self._wait(lambda: index in decisions or state.stopping or not self._current(generation, number), None)
        # setdefault fixes the answer at the first rank that gets here, so that no rank trains on while another stops.
        return decisions.setdefault(index, True)

    async def post(self, generation: int, number: int, event: Event) -> None:
        """Posts a score or an error; the slot shows the first error that is not an echo of another."""
        if self._current(generation, number):
            self.events.append(event)
            await self._wake()

    async def finish(self, generation: int, number: int, rank: int, outcome: Outcome | None) -> None:
        """Notes that a rank has finished the job; the last rank posts the job's end with rank 0's outcome."""
        state = self._current(generation, number)
        if state is None:
            return
        state.finished.add(rank)
        state.outcome = outcome or state.outcome
        if len(state.finished) == self.size and not state.ended:
            state.ended = True
            self.events.append(DoneEvent(state.outcome))
        await self._wake()

    async def wait_end(self, generation: int) -> GroupEnd:
        """Long-polls for the end of a rank's group: returns how it ended, or `open` after a while (ask again)."""
        await self._wait(lambda: not self._alive(generation), LONG_POLL_SECONDS)
        return self.ended if generation == self.generation else "aborted"

    async def saved(self, generation: int, rank: int) -> None:
        if generation == self.generation:
            self.unsaved.discard(rank)
            await self._wake()

    # Both

    def _alive(self, generation: int) -> bool:
        return generation == self.generation and self.ended == "open"

    def _current(self, generation: int, number: int) -> JobState | None:
        alive = generation == self.generation and self.ended != "aborted"
        return self.job if alive and self.job and self.job.number == number else None

    def _pending(self, after: int) -> JobState | None:
        return self.job if self.job and self.job.number > after and not self.job.ended else None

    async def _wake(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    async def _wait(self, condition: Callable[[], bool], timeout_s: float | None) -> bool:
        async with self.changed:
            waiting: Awaitable[bool] = self.changed.wait_for(condition)
            try:
                return await asyncio.wait_for(waiting, timeout_s)
            except TimeoutError:
                return False
