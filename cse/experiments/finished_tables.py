"""Prints each table of a sweep as soon as its runs have ended, so that a crash days later loses no finished table."""

import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

from cluster.sweep.events import RUN_ENDS, EventKind, SweepEvent

log = logging.getLogger(__name__)


class FinishedTables:
    """Event listener of `run_sweep` that hands out each table once its runs have ended; also a context manager.

    Tables are made in a thread, one at a time. A table that cannot be made, or whose runs get scores afterwards, is in
    `missed`.
    """

    def __init__(self, runs: Sequence[Iterable[str]], give: Callable[[int], None]) -> None:
        """`runs`: signatures that each table waits for. `give`: prints and writes a table, by its index."""
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
        """Hands out a table whose runs have ended, by its index."""
        self._thread.submit(self._make, place)

    def missed(self) -> list[int]:
        """Returns indices of tables not handed out, or not with all scores; valid after the block has ended."""
        return [place for place in range(len(self._runs)) if place not in self._given]

    def _make(self, place: int) -> None:
        # Before the table is made: a score that comes meanwhile takes the place out again.
        self._given.add(place)
        try:
            self._give(place)
        except Exception:  # the caller makes the missed ones again, and reports the error
            self._given.discard(place)
            log.debug("table %d could not be made yet", place, exc_info=True)
