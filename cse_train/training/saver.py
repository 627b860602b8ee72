"""Writes what a run hands over behind its steps: in a thread, one thing at a time, of what waits the newest alone.

Knows nothing of torch: what is written, and that it no longer changes, is the caller's.
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
"""From one write to the next at least, and so what a kill can lose at most."""
log = logging.getLogger(__name__)
_open: set["Saver"] = set()
"""Those of the runs that train in this process."""


class Saver(contextlib.AbstractContextManager["Saver"]):
    """Of one run, while it trains. An error of a write is raised at the run's next call.

    Leaving it by an error, an interrupt for one, writes what waits.
    """

    def __init__(self, minutes: float = SAVE_MINUTES) -> None:
        """`minutes`: 0 for a write at every call, for which the caller waits."""
        self._every_s, self._begun = 60 * minutes, float("-inf")
        self._newest: deque[Callable[[], object]] = deque(maxlen=1)
        self._turn, self._thread = threading.Lock(), threading.Thread()
        self._error: BaseException | None = None

    @property
    def is_waited_for(self) -> bool:
        """Whether the caller waits for each write, so that it may hand over what changes afterwards."""
        return self._every_s == 0

    @property
    def is_due(self) -> bool:
        """Whether what is handed over next is written at once. The first is: a bad disk is told early."""
        return not self._is_busy and time.monotonic() - self._begun >= self._every_s

    def hand_over(self, write: Callable[[], object], now: bool) -> None:
        """Take what is to be written, in place of what waits. It is begun `now`, or waits for a later call."""
        self._raise_error()
        self._newest.append(write)
        if self.is_waited_for:
            self.flush()
        elif now:
            self._begin()

    def wait(self, seconds: float) -> bool:
        """Begin what waits; whether all is written within so many seconds."""
        self._raise_error()
        if self._newest and not self._is_busy:
            self._begin()
        if self._thread.is_alive():
            self._thread.join(seconds)
        self._raise_error()
        return not self._newest and not self._is_busy

    def flush(self) -> None:
        """Write what waits, in the calling thread, when what is being written is done. From any thread."""
        with self._turn:
            if self._newest:
                self._newest.pop()()

    def flush_or_tell(self) -> None:
        """The same; what cannot be written is told in the log."""
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
        return self._thread.is_alive() or self._turn.locked()

    def _begin(self) -> None:
        self._begun = time.monotonic()
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
    """Write what waits of every run that trains in this process."""
    for saver in list(_open):
        saver.flush_or_tell()
