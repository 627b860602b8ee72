"""Each table is printed as soon as its runs have ended: a sweep of days may break, its finished tables are there."""

import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

from cluster.sweep.events import RUN_ENDS, EventKind, SweepEvent

log = logging.getLogger(__name__)


class FinishedTables:
    """A listener of `run_sweep` and a context manager; tables are made in a thread of its own, one at a time.

    A table that cannot be made, or gets a score after it was given, is left for `missed`.
    """

    def __init__(self, runs: Sequence[Iterable[str]], give: Callable[[int], None]) -> None:
        """`runs`: of each table, the signatures that it waits for; `give` prints and writes a table by its place."""
        self._runs = [frozenset(signatures) for signatures in runs]
        self._left = [set(signatures) for signatures in self._runs]
        self._give, self._given = give, set[int]()
        self._thread = ThreadPoolExecutor(1, "tables")

    def __enter__(self) -> "FinishedTables":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._thread.shutdown(wait=True)

    def __call__(self, event: SweepEvent) -> None:
        if event.kind == EventKind.SCORED:
            self._given -= {place for place, runs in enumerate(self._runs) if event.signature in runs}
        elif event.kind in (EventKind.REUSED, *RUN_ENDS):
            for place, left in enumerate(self._left):
                if event.signature in left:
                    left.remove(event.signature)
                    if not left:
                        self.whole(place)

    def whole(self, place: int) -> None:
        """This table's runs have ended."""
        self._thread.submit(self._make, place)

    def missed(self) -> list[int]:
        """The tables that were not given, or not with all their scores; to be asked after the end."""
        return [place for place in range(len(self._runs)) if place not in self._given]

    def _make(self, place: int) -> None:
        self._given.add(place)
        try:
            self._give(place)
        except Exception:  # the caller makes the missed ones again, and reports the error
            self._given.discard(place)
            log.debug("table %d could not be made yet", place, exc_info=True)
