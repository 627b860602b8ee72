"""Parses `--budget`: limits in runs, examples, run-hours, GPU-hours, money, or time by the clock."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from cse_train.fields import ConfigError

MOST_BUDGET = 1e15
"""Largest amount of a budget; every whole number up to it is an exact float."""
VALID = "40 runs, 500000 examples, 20 min, 2 h, 3 run-hours, 8 GPU-hours or 40 EUR"
CLOCK = {"s": 1.0, "sec": 1.0, "second": 1.0, "min": 60.0, "minute": 60.0, "h": 3600.0, "d": 86400.0, "day": 86400.0}
"""Singular name of a unit of clock time -> seconds."""


class Unit(StrEnum):
    """Unit in which a budget is counted."""

    RUNS = "runs"
    EXAMPLES = "examples"
    RUN_HOURS = "run-hours"
    GPU_HOURS = "GPU-hours"
    CLOCK = "time by the clock"


@dataclass(frozen=True)
class Price:
    """Price of an hour of one GPU."""

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
        """True if the unit is counted in whole numbers."""
        return self.unit in (Unit.RUNS, Unit.EXAMPLES)

    def share(self, methods: int) -> float:
        """Returns the amount that each of `methods` methods may spend; runs and examples are rounded down."""
        return self.amount // methods if self.is_whole else self.amount / methods

    def write(self, amount: float) -> str:
        """Returns an amount with its unit, such as `3 run-hours` or `40 EUR`."""
        name = "min" if self.unit is Unit.CLOCK else self.price.currency if self.price else self.unit
        return f"{self.write_number(amount)} {name}"

    def write_number(self, amount: float) -> str:
        """Returns an amount without its unit; in money or minutes where the budget is in money or clock time."""
        if self.price:
            return f"{amount * self.price.amount:.6g}"
        if self.unit is Unit.CLOCK:
            return f"{round(amount / 60, 1):g}"
        return f"{amount:.15g}" if self.is_whole else f"{amount:.6g}"


def parse_price(text: str) -> Price:
    """Parses the price of an hour of one GPU, such as `2.5 EUR`; raises ConfigError for anything else."""
    parts = re.fullmatch(r"(\d+(?:\.\d+)?) ?([A-Z]{3})", text.strip(), re.ASCII)
    if not parts or not 0 < float(parts[1]) <= MOST_BUDGET:
        raise ConfigError([f"wrong price: price={text}; give that of an hour of one GPU, such as 2.5 EUR"])
    return Price(float(parts[1]), parts[2])


def parse_budgets(
    texts: Sequence[str], methods: Sequence[str], gpus: float = 0.0, price: str | None = None
) -> tuple[Budget, ...]:
    """Parses all limits of `texts`, each of which may hold several with commas between; the first to be spent counts.

    `gpus`: GPUs of one run. ConfigError, one line each: no limit, two of one unit, less than a run for each method,
    GPU-hours of runs without a GPU, and money without a price in its currency.
    """
    costs = None if price is None else parse_price(price)
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
    """Returns a limit by the name of its unit; None for an unknown unit.

    Raises ConfigError for money without a price.
    """
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
