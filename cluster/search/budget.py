"""A budget for a sweep in runs, training examples or run-hours, shared equally by the methods that it compares.

What was spent is read from the ledger before each run, so that all drivers of a search spend one budget together, and
the same call with the same budget goes on where the last one ended, and runs nothing once it is spent. Hours are summed
over runs that went side by side. A run under way, in any driver, has its expected cost set aside: one run, its
examples, or the mean hours of its method's runs so far. A method's share is spent with the first run that it cannot pay
for; a run that has started goes to its end. Drivers that look at the same moment may each begin one run too many.
"""

import contextlib
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from analysis.ledger import LedgerError, RunRow
from analysis.run_state import RunState
from cluster.plan.match import RunMatcher
from cluster.plan.plan import PlannedRun
from cluster.plan.run_source import RunSource
from cluster.plan.signature import examples_in
from cse_train.fields import ConfigError

BUDGET_UNITS = ("runs", "examples", "hours")
MOST_BUDGET = 1e15
"""Below it every whole number is a float of its own."""
LOOK_S = 1.0
"""Seconds between two looks for what comes back of the money that is set aside."""


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
    if not parts or unit not in BUDGET_UNITS or not 0 < amount <= MOST_BUDGET or (unit != "hours" and "." in parts[1]):
        raise ConfigError([f"wrong budget: budget={text}; give a number such as 40runs, 500000examples or 2hours"])
    budget, count = Budget(amount, unit), len(methods)
    if unit != "hours" and budget.share(count) < 1:
        raise ConfigError([f"budget too small: budget={text}; {count} methods share it, give at least {count}{unit}"])
    return budget


class Account:
    """What each method has spent of its share, and what is set aside for its runs under way."""

    def __init__(
        self,
        budget: Budget,
        methods: Sequence[str],
        rows: Iterable[RunRow],
        examples_of: Callable[[RunRow], int | None] = lambda row: row.examples,
    ) -> None:
        """`rows`: what the ledger has of this space; `examples_of` gives the whole length of such a row's run."""
        self.budget, self.share, self.methods = budget, budget.share(len(methods)), set(methods)
        self._examples_of = examples_of
        self._ended: dict[str, dict[str, float]] = {method: {} for method in methods}
        self._open: dict[str, dict[str, float]] = {method: {} for method in methods}
        self.take(rows)

    def allows(self, planned: PlannedRun) -> bool:
        """Whether the run's method can pay for it; what has ended, or is under way, costs nothing more."""
        ended, under_way = self._ended[planned.run.method], self._open[planned.run.method]
        if planned.signature in ended or planned.signature in under_way:
            return True
        expected = self._estimate(planned.run.method, planned.examples)
        return sum(ended.values()) + sum(under_way.values()) + expected <= self.share

    def open(self, planned: PlannedRun) -> None:
        """Set aside what the run is expected to take."""
        method = planned.run.method
        if planned.signature not in self._ended[method]:
            self._open[method][planned.signature] = self._estimate(method, planned.examples)

    def take(self, rows: Iterable[RunRow]) -> None:
        """Book what ended, with what the ledger says that it took; set aside for what a living driver holds."""
        for row in rows:
            self._open[row.method].pop(row.signature, None)
            if row.state.is_final:
                took = {"runs": 1.0, "examples": float(row.examples or 0), "hours": (row.seconds or 0.0) / 3600}
                self._ended[row.method][row.signature] = took[self.budget.unit]
            elif row.live and row.signature not in self._ended[row.method]:
                self._open[row.method][row.signature] = self._estimate(row.method, self._examples_of(row))

    def under_way(self, method: str) -> bool:
        """Whether money that is set aside may come back."""
        return bool(self._open[method])

    def line(self) -> str:
        """What each method has spent of its share."""
        spent = {method: sum(ended.values()) for method, ended in self._ended.items()}
        each = ", ".join(f"{method} {amount:.6g} of {self.share:.6g}" for method, amount in spent.items())
        return f"budget {self.budget}: {each} {self.budget.unit} spent"

    def _estimate(self, method: str, examples: int | None) -> float:
        """What a run of so many examples is expected to take."""
        ended = self._ended[method].values()
        mean = sum(ended) / len(ended) if ended else 0.0
        return {"runs": 1.0, "examples": float(examples or 0), "hours": mean}[self.budget.unit]


def whole_length(matcher: RunMatcher, row: RunRow) -> int | None:
    """Examples of a row's whole run; None for a run of no cell, or of unknown length."""
    cells = matcher.cells(row)
    return examples_in(cells[0].run(row.seed), row.identity) if cells else None


class BudgetSource(RunSource):
    """Hands out a source's runs as long as their methods can pay."""

    def __init__(self, source: RunSource, account: Account, news: Callable[[], Iterable[RunRow]]) -> None:
        """`news` gives the rows of this space that changed in the ledger, and those that any driver holds."""
        self._source, self._account, self._news = source, account, news
        self._held: deque[PlannedRun] = deque()
        self._next_look = 0.0
        self._over: set[str] = set()
        self.keeps_stopped, self.proposes = source.keeps_stopped, source.proposes

    def ask(self) -> PlannedRun | None:
        """The next run that can be paid for; None also where that depends on how a run under way ends."""
        if self._held and time.monotonic() < self._next_look:
            return None
        while (planned := self._next()) is not None:
            method = planned.run.method
            self._account.take(self._news())
            if self._account.allows(planned):
                self._account.open(planned)
                return planned
            if self._account.under_way(method):
                self._held.append(planned)
                self._next_look = time.monotonic() + LOOK_S
                return None
            self._over.add(method)
            self._source.skip(planned)
        return None

    def exhausted(self) -> bool:
        return not self._held and (self._source.exhausted() or self._over == self._account.methods)

    def observe(self, planned: PlannedRun, state: RunState, value: float | None, examples: int | None) -> None:
        self._next_look = 0.0
        self._source.observe(planned, state, value, examples)

    def skip(self, planned: PlannedRun) -> None:
        self._source.skip(planned)

    def refresh(self) -> None:
        self._source.refresh()

    def points(self) -> Mapping[str, list[tuple[int, float]]]:
        return self._source.points()

    def line(self) -> str:
        """What every driver has spent by now."""
        with contextlib.suppress(LedgerError):
            self._account.take(self._news())
        return self._account.line()

    def _next(self) -> PlannedRun | None:
        """What was held first; nothing more once every method's share is spent."""
        if self._held:
            return self._held.popleft()
        return None if self._over == self._account.methods else self._source.ask()
