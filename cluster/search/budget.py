"""Budgets of a sweep, each shared equally by the methods that the sweep compares.

Spending is read from the ledger before each run, so that all drivers of a search share one budget, and the same call
with the same budget goes on where the last one ended and runs nothing once it is spent. Hours are summed over parallel
runs; time by the clock is this call's own. A run under way, in any driver, has its expected cost reserved: one run, its
examples, or the mean hours of its method's runs so far. A method's share is spent at the first run that it cannot pay
for, and no run begins for which the clock leaves no time; a run that has started goes to its end. Drivers that read the
ledger at the same moment may each begin one run too many.
"""

import contextlib
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from analysis.ledger import LedgerError, RunRow
from analysis.matching import RunMatcher
from analysis.run_state import RunState
from cluster.plan.plan import PlannedRun
from cluster.plan.run_source import Points, RunSource
from cse_train.fields import ConfigError
from search_spaces.identity.signature import examples_in

MOST_BUDGET = 1e15
"""Largest amount of a budget; every whole number up to it is an exact float."""
VALID = "40 runs, 500000 examples, 20 min, 2 h, 3 run-hours, 8 GPU-hours or 40 EUR"
CLOCK = {"s": 1.0, "sec": 1.0, "second": 1.0, "min": 60.0, "minute": 60.0, "h": 3600.0, "d": 86400.0, "day": 86400.0}
"""Singular name of a unit of clock time -> seconds."""


class Unit(StrEnum):
    RUNS = "runs"
    EXAMPLES = "examples"
    RUN_HOURS = "run-hours"
    GPU_HOURS = "GPU-hours"
    CLOCK = "time by the clock"


@dataclass(frozen=True)
class Price:
    amount: float
    currency: str


@dataclass(frozen=True)
class Budget:
    """Amount of one unit that all methods together may spend."""

    amount: float
    unit: Unit
    price: Price | None = None
    """Price per GPU-hour of a budget given in money, which is counted in GPU-hours; else None."""

    def __str__(self) -> str:
        return self.write(self.amount)

    @property
    def is_whole(self) -> bool:
        return self.unit in (Unit.RUNS, Unit.EXAMPLES)

    def share(self, methods: int) -> float:
        """Returns the amount that each of `methods` methods may spend; runs and examples are rounded down."""
        return self.amount // methods if self.is_whole else self.amount / methods

    def write(self, amount: float) -> str:
        name = "min" if self.unit is Unit.CLOCK else self.price.currency if self.price else self.unit
        return f"{self.write_number(amount)} {name}"

    def write_number(self, amount: float) -> str:
        """Returns an amount without its unit; in money or minutes where the budget is in money or clock time."""
        if self.price:
            return f"{amount * self.price.amount:.6g}"
        if self.unit is Unit.CLOCK:
            return f"{round(amount / 60, 1):g}"
        return f"{amount:.15g}" if self.is_whole else f"{amount:.6g}"


def parse_budgets(
    texts: Sequence[str], methods: Sequence[str], gpus: float = 0.0, price: str | None = None
) -> tuple[Budget, ...]:
    """Parses all limits, also several in a text with commas between; `gpus`: GPUs of one run.

    Raises ConfigError with a line for each limit that is wrong, or that the runs cannot count.
    """
    parts = re.fullmatch(r"(\d+(?:\.\d+)?) ?([A-Z]{3})", (price or "").strip(), re.ASCII)
    if price is not None and not (parts and 0 < float(parts[1]) <= MOST_BUDGET):
        raise ConfigError([f"wrong price: price={price}; give that of an hour of one GPU, such as 2.5 EUR"])
    costs = Price(float(parts[1]), parts[2]) if parts else None
    problems, budgets = [], []
    for text in (part.strip() for entry in texts for part in entry.split(",")):
        try:
            budgets.append(_parse(text, methods, gpus, costs))
        except ConfigError as error:
            problems += error.problems
    units = [budget.unit for budget in budgets]
    problems += [f"two limits of {unit}: budget={', '.join(texts)}; give one" for unit in Unit if units.count(unit) > 1]
    if problems:
        raise ConfigError(problems)
    return tuple(budgets)


def _parse(text: str, methods: Sequence[str], gpus: float, price: Price | None) -> Budget:
    parts = re.fullmatch(r"(\d+(?:\.\d+)?) ?([A-Za-z]+(?:[- ][A-Za-z]+)?)", text, re.ASCII)
    amount, name = (float(parts[1]), parts[2]) if parts else (0.0, "")
    if parts and name.lower() in ("hour", "hours"):
        advice = f"give {amount:g} h for hours by the clock, or {amount:g} run-hours for hours summed over runs"
        raise ConfigError([f"two readings: budget={text}; {advice}"])
    budget = _budget(amount, name, price)
    if not parts or budget is None or not 0 < amount <= MOST_BUDGET or (budget.is_whole and "." in parts[1]):
        raise ConfigError([f"wrong budget: budget={text}; give a number such as {VALID}"])
    if budget.unit is Unit.GPU_HOURS and not gpus:
        advice = "give --gpus-per-worker, or limit time or run-hours"
        raise ConfigError([f"no GPU: budget={text} of runs that ask for none; {advice}"])
    if budget.is_whole and budget.share(len(methods)) < 1:
        least = f"{len(methods)} {budget.unit}"
        raise ConfigError([f"budget too small: budget={text}; {len(methods)} methods share it, give at least {least}"])
    return budget


def _budget(amount: float, name: str, price: Price | None) -> Budget | None:
    """Returns a limit by the name of its unit, None for an unknown one; money without a price raises ConfigError."""
    if re.fullmatch("[A-Z]{3}", name):
        if price is None:
            line = f"no price: budget={amount:g} {name}"
            raise ConfigError([f"{line}; give that of an hour of one GPU, --price '2 {name}'"])
        if price.currency != name:
            line = f"two currencies: budget={amount:g} {name}, price={price.amount:g} {price.currency}"
            raise ConfigError([f"{line}; give both in one"])
        return Budget(amount / price.amount, Unit.GPU_HOURS, price)
    singular = name.lower().replace(" ", "-").removesuffix("s") or "s"
    if singular in CLOCK:
        return Budget(amount * CLOCK[singular], Unit.CLOCK)
    units = {unit.lower().removesuffix("s"): unit for unit in Unit if unit is not Unit.CLOCK}
    return Budget(amount, units[singular]) if singular in units else None


BUDGET_POLL_SECONDS = 1.0
"""Seconds between two reads of the ledger while a run waits for reserved budget to come back."""


class Account:
    """Spending of each method out of its share, and budget reserved for its runs under way."""

    def __init__(
        self,
        budget: Budget,
        methods: Sequence[str],
        rows: Iterable[RunRow],
        examples_of: Callable[[RunRow], int | None] = lambda row: row.examples,
        gpus: float = 0.0,
    ) -> None:
        """Books the ledger's rows as spent; `examples_of`: row -> its run's whole length, `gpus`: GPUs of a run."""
        self.budget, self.share, self._gpus = budget, budget.share(len(methods)), gpus
        self._examples_of = examples_of
        self._end_costs: dict[str, dict[str, float]] = {method: {} for method in methods}
        self._reserved: dict[str, dict[str, float]] = {method: {} for method in methods}
        self.spent_share = 0.0
        """Fraction of the whole budget that is spent, 0 to 1."""
        self.take(rows)

    def allows(self, planned: PlannedRun) -> bool:
        """Tells whether the run's method can pay for it; a run that has ended or is under way costs nothing more."""
        end_costs, reserved = self._end_costs[planned.run.method], self._reserved[planned.run.method]
        if planned.signature in end_costs or planned.signature in reserved:
            return True
        expected = self._estimate(planned.run.method, planned.examples)
        return sum(end_costs.values()) + sum(reserved.values()) + expected <= self.share

    def open(self, planned: PlannedRun) -> None:
        method = planned.run.method
        if planned.signature not in self._end_costs[method]:
            self._reserved[method][planned.signature] = self._estimate(method, planned.examples)

    def take(self, rows: Iterable[RunRow]) -> None:
        """Books the costs of ended runs from the ledger's rows, and reserves those of runs in living drivers."""
        for row in rows:
            self._reserved[row.method].pop(row.signature, None)
            if row.state.is_final:
                hours = (row.seconds or 0.0) / 3600
                costs = {Unit.RUNS: 1.0, Unit.EXAMPLES: float(row.examples or 0), Unit.RUN_HOURS: hours}
                cost = costs.get(self.budget.unit, hours * self._gpus)
                self._end_costs[row.method][row.signature] = cost
            elif row.live and row.signature not in self._end_costs[row.method]:
                self._reserved[row.method][row.signature] = self._estimate(row.method, self._examples_of(row))
        spent = sum(sum(costs.values()) for costs in self._end_costs.values())
        self.spent_share = spent / self.budget.amount

    def under_way(self, method: str) -> bool:
        """Tells whether reserved budget of a method may still come back."""
        return bool(self._reserved[method])

    def line(self) -> str:
        spent = {method: sum(costs.values()) for method, costs in self._end_costs.items()}
        share = self.budget.write(self.share)
        each = ", ".join(f"{method} {self.budget.write_number(amount)} of {share}" for method, amount in spent.items())
        return f"budget {self.budget}: {each} spent"

    def _estimate(self, method: str, examples: int | None) -> float:
        """Returns the expected cost of a run of `examples` examples, in the budget's unit."""
        costs = self._end_costs[method].values()
        mean = sum(costs) / len(costs) if costs else 0.0
        return {Unit.RUNS: 1.0, Unit.EXAMPLES: float(examples or 0)}.get(self.budget.unit, mean)


class Clock:
    """Time limit of one call, and whether another run would still end within it."""

    def __init__(self, budget: Budget, rows: Iterable[RunRow], begun: float) -> None:
        """Starts the clock at `begun` (`time.monotonic`); `rows` of the ledger give the mean seconds of a run."""
        self.budget, self._start = budget, begun
        self._seconds: dict[str, float] = {}
        self.take(rows)

    def take(self, rows: Iterable[RunRow]) -> None:
        self._seconds |= {row.signature: row.seconds for row in rows if row.state is RunState.DONE and row.seconds}

    def has_time(self) -> bool:
        """Tells whether a run begun now is expected to end in time, by the mean of those that have finished."""
        mean = sum(self._seconds.values()) / len(self._seconds) if self._seconds else 0.0
        return time.monotonic() - self._start + mean < self.budget.amount

    @property
    def spent_share(self) -> float:
        return (time.monotonic() - self._start) / self.budget.amount

    def line(self) -> str:
        return f"budget {self.budget}: {self.budget.write(time.monotonic() - self._start)} by the clock"


def whole_length(matcher: RunMatcher, row: RunRow) -> int | None:
    """Returns the examples of a row's whole run; None where it matches no cell or its length is unknown."""
    cells = matcher.cells(row)
    return examples_in(cells[0].run(row.seed), row.identity) if cells else None


class BudgetSource(RunSource):
    """Passes on a source's runs as long as their methods can pay for them and time is left."""

    def __init__(
        self,
        source: RunSource,
        accounts: Sequence[Account],
        methods: Iterable[str],
        news: Callable[[], Iterable[RunRow]],
        clock: Clock | None = None,
    ) -> None:
        """Wraps `source`; `news` returns the rows of this space that changed in the ledger or that a driver holds."""
        self._source, self._accounts, self._methods, self._clock = source, accounts, set(methods), clock
        self._limits: Sequence[Account | Clock] = (*accounts, *filter(None, [clock]))
        self._news = news
        self._waiting: deque[PlannedRun] = deque()
        self._next_look = 0.0
        self._spent_methods: set[str] = set()
        self.keeps_stopped, self.proposes = source.keeps_stopped, source.proposes

    def ask(self) -> PlannedRun | None:
        """Returns the next affordable run; None where that depends on how a run under way ends."""
        if self._waiting and time.monotonic() < self._next_look:
            return None
        while (planned := self._next()) is not None:
            method = planned.run.method
            self._take()
            if self._clock and not self._clock.has_time():
                self._spent_methods = set(self._methods)
                self._source.skip(planned)
                continue
            refusing = [account for account in self._accounts if not account.allows(planned)]
            if not refusing:
                for account in self._accounts:
                    account.open(planned)
                return planned
            if all(account.under_way(method) for account in refusing):
                self._waiting.append(planned)
                self._next_look = time.monotonic() + BUDGET_POLL_SECONDS
                return None
            self._spent_methods.add(method)
            self._source.skip(planned)
        return None

    def exhausted(self) -> bool:
        return not self._waiting and (self._source.exhausted() or self._spent_methods == self._methods)

    def observe(self, planned: PlannedRun, state: RunState, value: float | None, examples: int | None) -> None:
        # An ended run may free reserved budget, so the next `ask` reads the ledger at once.
        self._next_look = 0.0
        self._source.observe(planned, state, value, examples)

    def skip(self, planned: PlannedRun) -> None:
        self._source.skip(planned)

    def refresh(self) -> None:
        self._source.refresh()

    def points(self) -> Points:
        return self._source.points()

    def lines(self) -> list[str]:
        """Reads the ledger and returns one line per limit with what all drivers have spent."""
        with contextlib.suppress(LedgerError):
            self._take()
        return self.spent()

    def spent(self) -> list[str]:
        """Returns one line per limit with what was spent as of the last read of the ledger."""
        return [limit.line() for limit in self._limits]

    def shares(self) -> dict[str, float]:
        """Returns limit -> fraction spent, 0 to 1, as of the last read of the ledger; safe in any thread."""
        return {str(limit.budget): limit.spent_share for limit in self._limits}

    def _take(self) -> None:
        rows = list(self._news())
        for limit in self._limits:
            limit.take(rows)

    def _next(self) -> PlannedRun | None:
        """Returns the run that waited for budget, else the source's next; None once every method's share is spent."""
        if self._waiting:
            return self._waiting.popleft()
        return None if self._spent_methods == self._methods else self._source.ask()
