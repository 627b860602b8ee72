"""Wraps a ledger so that its calls wait while the database is unreachable for some minutes."""

import functools
import itertools
import threading
import time
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from analysis.ledger import Claim, Ledger, LedgerAway
from analysis.run_state import RunState
from cse_train.results import Settings

LEDGER_AWAY_SECONDS = 300.0
"""Longest wait in seconds for a database before the sweep ends; claims outlive it by no more than their lease."""
LEDGER_RETRY_SECONDS = 2.0

P = ParamSpec("P")
R = TypeVar("R")


class RetryingLedger:
    """Ledger whose methods are tried again while the database is unreachable, for LEDGER_AWAY_SECONDS at most.

    After that a method raises LedgerAway. Every method may be called twice with the same effect as once, except
    `claim`, which is repaired here.
    """

    def __init__(self, ledger: Ledger, over: threading.Event, report: Callable[[str], None]) -> None:
        """Wraps `ledger`; `over` ends a wait early, `report` receives a line when a wait begins and when it ends."""
        self._ledger, self._over, self._report = ledger, over, report
        self._last_away = float("-inf")

    def away(self) -> None:
        """Notes that the database does not answer, so that leases of living drivers may have ended meanwhile."""
        self._last_away = time.monotonic()

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._ledger, name)
        return functools.partial(self._retry, member) if callable(member) else member

    def claim(self, signature: str, config: Settings, *, owner: str, **rest: Any) -> Claim | None:
        """Claims a run as `Ledger.claim` does; a claim whose answer was lost on the way is released first.

        For one lease after the database was unreachable no run is taken over from another driver, which may only have
        been cut off too.
        """
        tries = itertools.count()

        def attempt() -> Claim | None:
            row = self._ledger.run(signature) if next(tries) else None
            if row and row.owner == owner and row.state == RunState.CLAIMED:
                self._ledger.release(Claim(signature, row.attempt, owner), "answer lost on the way")
            if time.monotonic() - self._last_away < self._ledger.lease:
                row = self._ledger.run(signature)
                if row is not None and row.state.is_held and row.owner != owner:
                    return None
            return self._ledger.claim(signature, config, owner=owner, **rest)

        return self._retry(attempt)

    def _retry(self, action: Callable[P, R], *args: P.args, **options: P.kwargs) -> R:
        since: float | None = None
        while True:
            try:
                value = action(*args, **options)
            except LedgerAway as error:
                now = time.monotonic()
                self.away()
                if since is None:
                    since = now
                    self._report(f"{error}; trying again for {LEDGER_AWAY_SECONDS:.0f} s")
                if now - since > LEDGER_AWAY_SECONDS or self._over.wait(LEDGER_RETRY_SECONDS):
                    raise
                continue
            if since is not None:
                self._report(f"the ledger answers again after {time.monotonic() - since:.0f} s")
            return value
