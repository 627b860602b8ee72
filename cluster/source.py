"""Where runs come from: a fixed list (a grid), or a search that proposes cells. Both hand out one run at a time."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from cse_train.config import RunConfig


class Planned(Protocol):
    """One run that a sweep wants (`cluster.plan.PlannedRun`)."""

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


C = TypeVar("C", contravariant=True)


class Proposer(Protocol[C]):
    """What `cluster.search` offers: `propose` gives a cell, None for no more, or its word for "ask again"."""

    def propose(self) -> Any: ...
    def observe(self, cell: C, seed: int, value: float | None, state: str, examples: int | None) -> None: ...


class SearchSource:
    """Cells of a proposer, each as one run per seed."""

    keeps_stopped = True

    def __init__(self, proposer: Proposer[Any], runs_of: Callable[[Any], Sequence[Planned]], wait: object) -> None:
        """`runs_of` gives a cell's runs, one per seed; `wait` is what `propose` returns for "ask again later"."""
        self._proposer, self._runs_of, self._wait = proposer, runs_of, wait
        self._left: deque[Planned] = deque()
        self._cells: dict[str, Any] = {}
        self._over = False

    def take(self) -> Planned | None:
        while not self._left and not self._over:
            cell = self._proposer.propose()
            if cell is self._wait:
                return None
            if cell is None:
                self._over = True
                break
            runs = self._runs_of(cell)
            self._cells.update({run.signature: cell for run in runs})
            self._left.extend(runs)
        return self._left.popleft() if self._left else None

    def exhausted(self) -> bool:
        return self._over and not self._left

    def tell(self, planned: Planned, state: str, value: float | None, examples: int | None) -> None:
        cell = self._cells.get(planned.signature)
        if cell is not None:
            self._proposer.observe(cell, planned.seed, value, state, examples)

    def forgo(self, planned: Planned) -> None:
        """Its cell counts as visited."""


class SeedRace(Protocol):
    """What `cluster.racing.Race` offers."""

    def enter(self, key: Mapping[str, Any], seed: int) -> None: ...
    def record(self, key: Mapping[str, Any], seed: int, state: str, value: float | None) -> None: ...
    def next_seed(self) -> tuple[Mapping[str, Any], int] | None: ...


class RaceSource:
    """A source's runs, and once they are handed out further seeds of their cells, as a race asks for them."""

    def __init__(self, source: Source, race: SeedRace, run_of: Callable[[Mapping[str, Any], int], Planned]) -> None:
        """`run_of` gives the run of a cell's key and a seed."""
        self._source, self._race, self._run_of = source, race, run_of
        self._open: set[str] = set()
        self._decided = False
        self.keeps_stopped = source.keeps_stopped

    def take(self) -> Planned | None:
        planned = self._source.take()
        if planned is None and self._source.exhausted():
            planned = self._further()
        if planned is not None:
            self._race.enter(planned.cell, planned.seed)
            self._open.add(planned.signature)
        return planned

    def exhausted(self) -> bool:
        return self._decided

    def tell(self, planned: Planned, state: str, value: float | None, examples: int | None) -> None:
        self._open.discard(planned.signature)
        self._race.record(planned.cell, planned.seed, state, value)
        self._source.tell(planned, state, value, examples)

    def forgo(self, planned: Planned) -> None:
        self._open.discard(planned.signature)
        self._source.forgo(planned)

    def _further(self) -> Planned | None:
        """The race's next seed; the race is over once it asks for none while no run is under way."""
        found = self._race.next_seed()
        if found is None:
            self._decided = not self._open
            return None
        return self._run_of(*found)
