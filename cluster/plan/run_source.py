"""Where runs come from: a fixed list (a grid), or a search that proposes cells. Both hand out one run at a time."""

from collections import deque
from collections.abc import Iterable
from typing import Any, Protocol

from cse_train.config import RunConfig


class Planned(Protocol):
    """One run that a sweep wants (`cluster.plan.planner.PlannedRun`)."""

    @property
    def signature(self) -> str: ...
    @property
    def run(self) -> RunConfig: ...
    @property
    def identity(self) -> dict[str, Any]: ...
    @property
    def cell(self) -> dict[str, Any]: ...
    @property
    def seed(self) -> int: ...
    @property
    def sweep(self) -> str: ...


class Source(Protocol):
    """Hands out runs and is told how each ended."""

    keeps_stopped: bool
    """Whether a run that a scheduler stopped counts as answered, or is trained on."""

    def take(self) -> Planned | None:
        """The next run that is wanted; None when there is none now."""
        ...

    def exhausted(self) -> bool:
        """Whether `take` will give None for ever."""
        ...

    def tell(self, planned: Planned, state: str, value: float | None, examples: int | None) -> None:
        """A run ended (`done`, `stopped`, `failed`) with this best dev score after so many examples."""
        ...

    def forgo(self, planned: Planned) -> None:
        """A run that was handed out will not be done."""
        ...


class GridSource:
    """Each distinct run of a list, once, in order."""

    keeps_stopped = False

    def __init__(self, planned: Iterable[Planned]) -> None:
        self._left = deque({run.signature: run for run in planned}.values())

    def take(self) -> Planned | None:
        return self._left.popleft() if self._left else None

    def exhausted(self) -> bool:
        return not self._left

    def tell(self, planned: Planned, state: str, value: float | None, examples: int | None) -> None:
        """A grid asks for nothing more, whatever came out."""

    def forgo(self, planned: Planned) -> None:
        """A grid does not replace it."""
