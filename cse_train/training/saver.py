"""Writes checkpoints in a thread while the run trains: one write at a time, and of those that wait the newest alone.

It knows nothing of torch: the caller decides what is written, and keeps it unchanged meanwhile.
"""

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType

from cse_train.reading import first_line

SAVE_MINUTES = 5.0
"""Smallest number of minutes between the starts of two writes, and so the longest training that a kill can lose."""
log = logging.getLogger(__name__)
_open: set["Saver"] = set()
"""Savers of the runs that train in this process."""


class Saver(contextlib.AbstractContextManager["Saver"]):
    """Writes the checkpoints of one run in a thread; an error of a write is raised at the run's next call.

    Leaving the context by an error, such as an interrupt, writes what waits.
    """

    def __init__(self, minutes: float = SAVE_MINUTES) -> None:
        """Creates a saver; with `minutes=0` every call writes at once and returns when the write is done."""
        self._interval_seconds, self._last_start = 60 * minutes, float("-inf")
        self._newest: deque[Callable[[], object]] = deque(maxlen=1)  # a newer write drops the one that waits
        self._lock, self._thread = threading.Lock(), threading.Thread()
        self._error: BaseException | None = None

    @property
    def is_waited_for(self) -> bool:
        """True if the caller waits for each write, so that it may hand over state that changes afterwards."""
        return self._interval_seconds == 0

    @property
    def is_due(self) -> bool:
        """True if the next write that is handed over begins at once.

        The first one always does, so that a bad disk is reported early.
        """
        return not self._is_busy and time.monotonic() - self._last_start >= self._interval_seconds

    def hand_over(self, write: Callable[[], object], now: bool) -> None:
        """Takes a write in place of one that waits; it begins `now`, or at a later call."""
        self._raise_error()
        self._newest.append(write)
        if self.is_waited_for:
            self.flush()
        elif now:
            self._begin()

    def wait(self, seconds: float) -> bool:
        """Begins the write that waits; returns True if all writes are done within `seconds`."""
        self._raise_error()
        if self._newest and not self._is_busy:
            self._begin()
        if self._thread.is_alive():
            self._thread.join(seconds)
        self._raise_error()
        return not self._newest and not self._is_busy

    def flush(self) -> None:
        """Runs the write that waits in the calling thread, after a running write has ended; any thread may call it."""
        with self._lock:  # the thread and callers of `flush` take turns; whoever is second may find nothing left
            if self._newest:
                self._newest.pop()()

    def flush_or_tell(self) -> None:
        """Runs the write that waits; an error is logged, not raised."""
        try:
            self.flush()
        except Exception as error:
            log.warning("not saved: %s", first_line(error))

    def __enter__(self) -> "Saver":
        _open.add(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            if kind is not None and self._error is None:
                self.flush_or_tell()
        finally:
            _open.discard(self)

    @property
    def _is_busy(self) -> bool:
        return self._thread.is_alive() or self._lock.locked()

    def _begin(self) -> None:
        self._last_start = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="saver", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.flush()
        except BaseException as error:
            self._error = error

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error


def save_open() -> None:
    """Writes the waiting checkpoint of every run that trains in this process."""
    for saver in list(_open):
        saver.flush_or_tell()
