"""Tells a slot that nobody has asked it for anything for a while."""

import contextlib
import threading
from collections.abc import Callable, Iterator


class Idleness:
    """Calls `tell` when no call came for some seconds after the last one. Calls and `tell` take turns."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell
        self._turns = threading.RLock()
        self._calls = 0
        self._timer = threading.Timer(0, self._over)

    @contextlib.contextmanager
    def asked(self, patience_s: Callable[[], float]) -> Iterator[None]:
        """One call; `patience_s` is asked at its end for how long nothing need follow."""
        self._timer.cancel()
        with self._turns:
            self._calls += 1
            try:
                yield
            finally:
                self._timer = threading.Timer(patience_s(), self._over, args=(self._calls,))
                self._timer.daemon = True
                self._timer.start()

    def end(self) -> None:
        """Tell nothing any more."""
        with self._turns:
            self._calls += 1
            self._timer.cancel()

    def _over(self, calls: int) -> None:
        with self._turns:
            if calls == self._calls:
                self._tell()
