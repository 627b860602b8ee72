"""What an option names as `module:name`, so that a process imports it only where it is used."""

import importlib
from dataclasses import dataclass
from typing import Any, Protocol


def named(reference: str) -> Any:
    """The object that `module:name` names."""
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)


@dataclass(frozen=True, kw_only=True)
class GroupSettings:
    """What a worker group is made of; a job that needs another makes the slot build it anew."""

    workers: int
    cpus: float
    gpus: float
    timeout_s: float
    storage: str
    digest: str


class Group(Protocol):
    """Runs one job at a time and tells what happens as events; made as `Group(recycle_after, name)`.

    An event has a `kind`: `point` (index, point), `score` (score), `error` (cause, reason) or `done` (outcome).
    """

    def submit(self, settings: GroupSettings, payload: dict[str, Any]) -> int:
        """Begin a job and return its number."""

    def events(self, timeout_s: float) -> list[dict[str, Any]]:
        """What happened since the last call; waits up to `timeout_s` for something."""

    def decide(self, number: int, index: int, stop: bool) -> None:
        """Answer report `index` of a gated job."""

    def stop(self, number: int) -> None:
        """End the job in hand early."""

    def lost(self) -> str | None:
        """Why there is no group any more; None while there is one."""

    def node_lost(self) -> bool:
        """Whether a part of the group was on a node that the cluster no longer has."""

    def abort(self) -> None:
        """End the group now."""

    def close(self) -> None:
        """End the group in order."""
