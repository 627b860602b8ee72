"""Timer that calls back when a slot has not been called for a while."""

import contextlib
import threading
from collections.abc import Callable, Iterator


class IdleTimer:
    """Calls `on_idle` when no call came for some seconds after the last one; never during a call."""

    def __init__(self, on_idle: Callable[[], None]) -> None:
        self._on_idle = on_idle
        self._turns = threading.RLock()
        self._calls = 0
        self._timer = threading.Timer(0, self._expire)

    @contextlib.contextmanager
    def call(self, limit_s: Callable[[], float]) -> Iterator[None]:
        """Context manager around one call of a slot, during which the timer does not run.

        `limit_s` is asked at its end for the seconds that may pass before the next call.
        """
        self._timer.cancel()
        with self._turns:
            self._calls += 1
            try:
                yield
            finally:
                self._timer = threading.Timer(limit_s(), self._expire, args=(self._calls,))
                self._timer.daemon = True
                self._timer.start()

    def end(self) -> None:
        """Stops the idle timer for good."""
        with self._turns:
            self._calls += 1
            self._timer.cancel()

    def _expire(self, calls: int) -> None:
        with self._turns:
            # A timer that waited for the lock is stale if a call came meanwhile.
            if calls == self._calls:
                self._on_idle()
