"""Jobs, settings, results and slots for tests, each with any of its fields changed."""

from pathlib import Path
from typing import Any

from analysis.run_state import RunState
from cluster.runtime.options import SweepOptions
from cluster.slots.group_api import Event, GroupSettings, Job, SlotSettings
from cluster.slots.slot import Slot
from cse_train.config import RunConfig, parse_run
from cse_train.data_paths import DataPaths


def run_of(*, seed: int = 0, examples: int = 128, evaluations: int = 4) -> RunConfig:
    return parse_run(
        {"method": "simcse", "train.seed": seed, "train.examples": examples, "train.evaluations": evaluations}
    )


def job(**changes: Any) -> Job:
    """A job of the stub (`stub_training`); `run` stands for its settings."""
    values = {
        "signature": "signature0",
        "kind": "train",
        "settings": changes.pop("run", run_of()).flat(),
        "paths": DataPaths(),
        "folder": Path("/nonexistent/here"),
        "function": "stub_training:train",
        "scorer": "stub_training:score",
        "gated": False,
        "threads": 1,
    }
    return Job(**(values | changes))


def group_settings(digest: str = "", **changes: Any) -> GroupSettings:
    values = {"storage": Path("/s"), "timeout_s": 1, "recycle_after": 9, "max_retries": 0}
    return GroupSettings(options=SweepOptions(**(values | changes)), digest=digest)


def slot_settings(quiet_s: float = 0.0, **changes: Any) -> SlotSettings:
    return SlotSettings(name="slot 1", group=group_settings(**changes), quiet_s=quiet_s)


def slot_result(**changes: Any) -> Any:
    """Of a job that runs and has no news."""
    lists = {"points": [], "scores": []}
    values = {"examples": 0, "best": 0.0, "state": "running", "reason": "", "retried": "", "done": False}
    values |= {"waits_for": "", "outcome": None, "lacking": {}}
    given = values | lists | changes
    return given | {"state": RunState(given["state"])}


class NotingGroup:
    """Takes jobs as number 7, reports the events that a test gives it, and notes the calls."""

    def __init__(self, recycle_after: int, name: str) -> None:
        self.calls: list[str] = []
        self.coming: list[Event] = []
        self.lost = self.waits_for = str
        self.has_ranks = self.node_lost = bool

    def submit(self, settings: GroupSettings, job: Job) -> int:
        self.calls.append(f"submit from {job.resume_from}")
        return 7

    def events(self, timeout_s: float) -> list[Event]:
        events, self.coming = self.coming, []
        return events

    def __getattr__(self, name: str) -> Any:
        return lambda *given: self.calls.append(" ".join([name, *map(str, given)]))


def trial(*, quiet_s: float = 0.0, max_retries: int = 0, **changes: Any) -> Any:
    """The configuration of a Tune trial of 64 examples, for a slot with a `NotingGroup`."""
    settings = slot_settings(quiet_s, group=f"{__name__}:NotingGroup", max_retries=max_retries)
    return {"job": job(**({"run": run_of(examples=64)} | changes)), "slot": settings}


def slot_of(**changes: Any) -> Any:
    """A slot that has begun such a trial, without Ray."""
    slot = object.__new__(Slot)
    slot.setup(trial(**changes))
    return slot
