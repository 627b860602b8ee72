"""The Tune trainable. A slot outlives its trials (`reuse_actors`), and so does the worker group that it owns."""

import time
from collections import Counter, deque
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from ray import tune

from cluster.slots.group_api import Group, GroupSettings, named
from cluster.slots.idle_timer import Idleness

HEARTBEAT_S = 1.0
"""Seconds without news after which a slot looks whether its group is still there."""
ECHO_S = 3.0
"""Seconds to wait for the real error after one that only tells that a rank is gone."""
IDLE_S = 20.0
"""Seconds without a job after which the group gives its CPUs and cards to another slot that may wait for them."""
UNASKED_S = 360.0
"""The same with a job in hand: Tune has ended its trial without a word, or waits for the database (300 s at most)."""


class Slot(tune.Trainable):
    """One trial is one job. `step` returns at each dev point, at the end, and after `config["quiet_s"]` without news.

    A user's error is a result (`state: failed`), never an exception: Tune would run it again. Lost workers are replaced
    here and the job goes on from its checkpoint. With `isolation: trial` Tune gives each trial a slot of its own.
    A slot that Tune keeps but asks for nothing gives up its group.
    """

    def setup(self, config: dict[str, Any]) -> None:
        self.name = config["name"]
        self.group: Group = named(config["group_class"])(config["recycle_after"], self.name)
        self.idleness = Idleness(self._rest)
        self.running = self.resting = False
        with self._asked():
            self._begin(config)

    def __repr__(self) -> str:
        return str(self.name)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        with self._asked():
            self._end_job()
            self._begin(new_config)
        return True

    def step(self) -> dict[str, Any]:
        with self._asked():
            if self.resting:
                self._submit()
            self._answer(stop=False)
            return self._next_result()

    def _asked(self) -> AbstractContextManager[None]:
        return self.idleness.asked(lambda: UNASKED_S if self.running else IDLE_S)

    def _rest(self) -> None:
        """Let the group go; a job in hand stops at its next report, and goes on from there when Tune asks again."""
        if self.running:
            self.group.stop(self.number)
        self.group.close()
        self.resting = self.running

    def _next_result(self) -> dict[str, Any]:
        until = time.monotonic() + self.quiet_s
        while True:
            event = self._next_event()
            result = self._on_silence(until) if event is None else self._on_event(event)
            if result is not None:
                return result

    def cleanup(self) -> None:
        self.idleness.end()
        if self.running:
            self.group.abort()
        self.group.close()

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Nothing: a run's checkpoints lie in its folder."""

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Nothing: see `save_checkpoint`."""

    # The job in hand

    def _begin(self, config: dict[str, Any]) -> None:
        self.job, self.settings = config["job"], GroupSettings(**config["group"])
        self.max_retries, self.losses, self.quiet_s = config["max_retries"], Counter[str](), config["quiet_s"]
        self.examples, self.judged, self.best = 0, 0, float("-inf")
        self.points: list[dict[str, Any]] = []
        self.scores: list[dict[str, Any]] = []
        self.events: deque[dict[str, Any]] = deque()
        self.undecided: int | None = None
        self.echo: tuple[float, str] | None = None
        self._submit()

    def _submit(self) -> None:
        self.events.clear()
        self.undecided, self.echo = None, None
        self.number = self.group.submit(self.settings, {**self.job, "resume_from": self._checkpoint()})
        self.running, self.resting = True, False

    def _checkpoint(self) -> str | None:
        """The folder to go on from: this attempt's own, else the newest earlier attempt's that has a checkpoint."""
        for folder in (self.job["folder"], *self.job["previous"]):
            last = Path(folder, "last")
            if last.is_dir() and any(not path.name.startswith(".") for path in last.iterdir()):
                return str(folder)
        return None

    def _end_job(self) -> None:
        if self.running:
            self.group.stop(self.number)
            self.running = False

    def _answer(self, stop: bool) -> None:
        """Tune asks for more: the report that it has just seen may go on."""
        if self.undecided is not None:
            self._decide(self.undecided, stop)
            self.undecided = None

    def _decide(self, index: int, stop: bool) -> None:
        """Only a gated job's ranks wait for the word; to others it would cost a round trip between two trials."""
        if self.job["gated"]:
            self.group.decide(self.number, index, stop)

    # Events of the ranks

    def _next_event(self) -> dict[str, Any] | None:
        if not self.events:
            self.events.extend(self.group.events(HEARTBEAT_S))
        return self.events.popleft() if self.events else None

    def _on_event(self, event: dict[str, Any]) -> dict[str, Any] | None:
        kind = event["kind"]
        if kind == "point":
            return self._on_point(event["index"], event["point"])
        if kind == "score":
            self.scores.append(event["score"])
            return None
        if kind == "error":
            return self._on_error(event)
        self.running = False
        outcome = event["outcome"] or {}
        self.best = outcome.get("best", self.best)
        self.examples = outcome.get("examples", self.examples)
        return self._final(outcome.get("state", "done"), "", outcome=outcome)

    def _on_point(self, index: int, point: dict[str, Any]) -> dict[str, Any] | None:
        """A point seen before (the run was continued) or the last one is not Tune's to decide on.

        Of the last one Tune hears with the end alone: told before, while suites are scored, it would be a rung.
        """
        news = point["examples"] > self.examples
        if news:
            self.points.append(point)
            self.examples, self.best = point["examples"], point["best"]
        if not news or point["examples"] >= self.job["total_examples"]:
            self._decide(index, stop=False)
            return None
        self.undecided, self.judged = index, self.examples
        return self._result("running")

    def _on_error(self, event: dict[str, Any]) -> dict[str, Any] | None:
        if event["cause"] == "echo":
            self.echo = self.echo or (time.monotonic(), event["reason"])
            return None
        self.running = False
        self.group.abort()
        return self._final("refused" if event["cause"] == "setup" else "failed", event["reason"])

    def _on_silence(self, until: float) -> dict[str, Any] | None:
        lost = self.group.lost()
        if self.echo and (lost or time.monotonic() - self.echo[0] > ECHO_S):
            lost = lost or self.echo[1]
        if lost:
            return self._on_lost(lost)
        return self._result("running") if time.monotonic() >= until else None

    def _on_lost(self, reason: str) -> dict[str, Any]:
        """The job goes on from its checkpoint in a new group, so often for lost workers and so often for lost nodes."""
        cause = "nodes" if self.group.node_lost() else "workers"
        self.group.abort()
        self.running = False
        self.losses[cause] += 1
        if self.losses[cause] > self.max_retries:
            return self._final("failed", f"{' and '.join(_counted(self.losses))}: {reason}")
        self._submit()
        return self._result("running", retried=f"node lost: {reason}" if cause == "nodes" else reason)

    # Results

    def _result(self, state: str, **more: Any) -> dict[str, Any]:
        points, self.points = self.points, []
        return {
            "examples": self.judged,
            "best": self.best,
            "state": state,
            "points": points,
            "scores": [],
            "reason": "",
            "outcome": {},
            "retried": "",
            "done": False,
            **more,
        }

    def _final(self, state: str, reason: str, outcome: dict[str, Any] | None = None) -> dict[str, Any]:
        told = {"examples": self.examples, "scores": self.scores, "reason": reason, "outcome": outcome or {}}
        return self._result(state, **told, done=True)


def _counted(losses: Mapping[str, int]) -> list[str]:
    return [f"{cause} lost {count} times" for cause, count in losses.items()]
