"""Calls back when a slot has had no call for a while."""

import contextlib
import threading
from collections.abc import Callable, Iterator


class IdleTimer:
    """Calls `on_idle` when no call came for some seconds after the last one; never while a call runs."""

    def __init__(self, on_idle: Callable[[], None]) -> None:
        self._on_idle = on_idle
        self._turns = threading.RLock()
        self._calls = 0
        self._timer = threading.Timer(0, self._expire)

    @contextlib.contextmanager
    def call(self, limit_s: Callable[[], float]) -> Iterator[None]:
        """One call; `limit_s` gives at its end the seconds that may pass before the next."""
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
        """Never call back again."""
        with self._turns:
            self._calls += 1
            self._timer.cancel()

    def _expire(self, calls: int) -> None:
        with self._turns:
            if calls == self._calls:
                self._on_idle()
