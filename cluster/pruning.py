"""Retention while a sweep trains: what `cse clean --delete` would free, freed as runs end."""

import contextlib
import time
from collections.abc import Callable
from types import TracebackType

from analysis.ledger import Ledger, LedgerError
from cluster.options import SweepEvent, SweepOptions
from cluster.retention import plan_cleaning, referred_models, remove

PERIOD_S = 30.0
"""Least time between two looks at the disk: each visits every file of every run."""
ENDS = ("done", "stopped")


class Pruner:
    """A listener of `run_sweep` and a context manager: prunes now and then, and once more when the sweep is over.

    Idle without `keep_top` and `disk_quota`. A ledger that does not answer is asked again at the next end of a run.
    """

    def __init__(self, ledger: str, options: SweepOptions, now: Callable[[], float] = time.monotonic) -> None:
        self._url, self._options, self._now = ledger, options, now
        self._asked = options.keep_top is not None or options.disk_quota is not None
        self._next = now() + PERIOD_S
        self.freed = 0
        """Bytes so far."""
        self.over = 0
        """Bytes above the quota that must stay, as last seen."""

    def __enter__(self) -> "Pruner":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self._prune()

    def __call__(self, event: SweepEvent) -> None:
        if event.kind in ENDS and self._now() >= self._next:
            self._prune()
            self._next = self._now() + PERIOD_S

    def _prune(self) -> None:
        if not self._asked:
            return
        with contextlib.suppress(LedgerError):
            ledger = Ledger.open(self._url, create=False)
            try:
                self._within(ledger)
            finally:
                ledger.close()

    def _within(self, ledger: Ledger) -> None:
        options, referred = self._options, referred_models(ledger, self._url)
        found = plan_cleaning(ledger, options.storage, options.keep_top, options.disk_quota, referred)
        self.freed += remove(ledger, found.removable)
        self.over = found.over
