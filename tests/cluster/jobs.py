"""Jobs, settings and results of a slot for tests, each with any of its fields changed."""

from pathlib import Path
from typing import Any

from analysis.run_state import RunState
from cluster.runtime.options import SweepOptions
from cluster.slots.group_api import GroupSettings, Job, SlotSettings
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
