"""A budget for a sweep in runs, training examples or run-hours, shared equally by the methods that it compares.

What was spent is read from the ledger, so the same call with the same budget goes on where the last one ended, and runs
nothing once it is spent. Hours are summed over runs that went side by side. A run under way has its expected cost set
aside: one run, its examples, or the mean hours of its method's runs so far. A method's share is spent with the first
run that it cannot pay for; a run that has started goes to its end.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from analysis.ledger import RunRow
from cluster.plan.match import FINAL
from cluster.plan.plan import PlannedRun
from cluster.plan.run_source import RunSource
from cse_train.fields import ConfigError

UNITS = ("runs", "examples", "hours")
MOST = 1e15
"""Below it every whole number is a float of its own."""


@dataclass(frozen=True)
class Budget:
    """So many of one unit for all methods together."""

    amount: float
    unit: str

    def __str__(self) -> str:
        return f"{self.amount:.15g}{self.unit}"

    def share(self, methods: int) -> float:
        """What each method may spend; whole runs and examples only."""
        return self.amount / methods if self.unit == "hours" else self.amount // methods


def parse_budget(text: str, methods: Sequence[str]) -> Budget:
    """`40runs`, `500000examples` or `2hours`; ConfigError for anything else, and for less than a run each."""
    parts = re.fullmatch(r"(\d+(?:\.\d+)?) ?([a-z]+?)s?", text.strip().lower())
    unit = f"{parts[2]}s" if parts else ""
    amount = float(parts[1]) if parts else 0.0
    if not parts or unit not in UNITS or not 0 < amount <= MOST or (unit != "hours" and "." in parts[1]):
        raise ConfigError([f"wrong budget: budget={text}; give a number such as 40runs, 500000examples or 2hours"])
    budget, count = Budget(amount, unit), len(methods)
    if unit != "hours" and budget.share(count) < 1:
        raise ConfigError([f"budget too small: budget={text}; {count} methods share it, give at least {count}{unit}"])
    return budget


class Account:
    """What each method has spent of its share, and what is set aside for its runs under way."""

    def __init__(self, budget: Budget, methods: Sequence[str], rows: Iterable[RunRow]) -> None:
        """`rows`: what the ledger has of this space."""
        self.budget, self.share, self.methods = budget, budget.share(len(methods)), set(methods)
        self._ended: dict[str, dict[str, float]] = {method: {} for method in methods}
        self._open: dict[str, dict[str, float]] = {method: {} for method in methods}
        for row in rows:
            self.close(row)

    def allows(self, planned: PlannedRun) -> bool:
        """Whether the run's method can pay for it; what has ended costs nothing more."""
        method = planned.run.method
        committed = sum(self._ended[method].values()) + sum(self._open[method].values())
        return planned.signature in self._ended[method] or committed + self._expected(planned) <= self.share

    def open(self, planned: PlannedRun) -> None:
        """Set aside what the run is expected to take."""
        if planned.signature not in self._ended[planned.run.method]:
            self._open[planned.run.method][planned.signature] = self._expected(planned)

    def close(self, row: RunRow) -> None:
        """Book a run that ended, with what the ledger says that it took."""
        self._open[row.method].pop(row.signature, None)
        if row.state in FINAL:
            took = {"runs": 1.0, "examples": float(row.examples or 0), "hours": (row.seconds or 0.0) / 3600}
            self._ended[row.method][row.signature] = took[self.budget.unit]

    def under_way(self, method: str) -> bool:
        """Whether money that is set aside may come back."""
        return bool(self._open[method])

    def line(self) -> str:
        """What each method has spent of its share."""
        spent = {method: sum(ended.values()) for method, ended in self._ended.items()}
        each = ", ".join(f"{method} {amount:.6g} of {self.share:.6g}" for method, amount in spent.items())
        return f"budget {self.budget}: {each} {self.budget.unit} spent"

    def _expected(self, planned: PlannedRun) -> float:
        ended = self._ended[planned.run.method].values()
        mean = sum(ended) / len(ended) if ended else 0.0
        return {"runs": 1.0, "examples": float(planned.examples or 0), "hours": mean}[self.budget.unit]


class BudgetSource(RunSource):
    """Hands out a source's runs as long as their methods can pay."""

    def __init__(self, source: RunSource, account: Account, row_of: Callable[[str], RunRow | None]) -> None:
        """`row_of` gives the ledger's row of a signature."""
        self._source, self._account, self._row_of = source, account, row_of
        self._held: deque[PlannedRun] = deque()
        self._over: set[str] = set()
        self.keeps_stopped = source.keeps_stopped

    def ask(self) -> PlannedRun | None:
        """The next run that can be paid for; None also where that depends on how a run under way ends."""
        while (planned := self._next()) is not None:
            method = planned.run.method
            if self._account.allows(planned):
                self._account.open(planned)
                return planned
            if self._account.under_way(method):
                self._held.append(planned)
                return None
            self._over.add(method)
            self._source.skip(planned)
        return None

    def exhausted(self) -> bool:
        return not self._held and (self._source.exhausted() or self._over == self._account.methods)

    def observe(self, planned: PlannedRun, state: str, value: float | None, examples: int | None) -> None:
        row = self._row_of(planned.signature)
        if row is not None:
            self._account.close(row)
        self._source.observe(planned, state, value, examples)

    def skip(self, planned: PlannedRun) -> None:
        self._source.skip(planned)

    def _next(self) -> PlannedRun | None:
        """What was held first; nothing more once every method's share is spent."""
        if self._held:
            return self._held.popleft()
        return None if self._over == self._account.methods else self._source.ask()
