"""Does our table say what the paper's says? For every published value a word, its interval and a reason.

At the paper's own scale values are compared; at another scale only the direction of each row from a reference row.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from analysis.statistics.basics import Spread, welch
from analysis.tables.aggregate import Entry, Table
from analysis.tables.spec import identify

Word = Literal[
    "reproduced", "within seed noise", "different", "not run", "undecided",
    "same direction", "opposite direction", "reference",
]  # fmt: skip
Interval = tuple[float, float]

SHARP = 1.0
"""Points: a wider half interval of our mean is too blunt for `reproduced`."""
SEED_NOISE = 2.0
"""Points between seeds of one setting at the papers' scale (SimCSE, issue 63)."""
UNIT_VALUES = 5.0
"""A column whose published values all lie below this is not in points (cosines, alignment): there 0.01 is a point."""


@dataclass(frozen=True)
class Verdict:
    """What is said of one published value."""

    word: Word
    interval: Interval | None
    """The interval that decided: of our mean, of one further seed, or of our difference from the reference row."""
    published: float
    """What is looked for in it: the paper's value, or its difference from the paper's reference row."""
    reason: str


Verdicts = Mapping[tuple[int, str], Verdict]
"""(row index, column) -> verdict; values that the paper does not print have none."""


@dataclass(frozen=True)
class _Column:
    """One result's entries with what is said of all of them."""

    entries: Sequence[Entry]
    shared: Spread | None
    """Seeds' spread pooled over the column."""

    @property
    def printed(self) -> list[float]:
        return [entry.published for entry in self.entries if entry.published is not None]

    @property
    def point(self) -> float:
        return 0.01 if all(abs(value) < UNIT_VALUES for value in self.printed) else 1.0

    @property
    def digits(self) -> int:
        """Decimals of our numbers in a reason."""
        return 2 if self.point == 1 else 4

    @property
    def rounding(self) -> float:
        """Half a unit of the last decimal that the paper prints: 82.5 stands for 82.45 to 82.55."""
        return 0.5 * 10.0 ** -max(len(f"{value:.10g}".partition(".")[2]) for value in self.printed)

    def spread(self, entry: Entry) -> Spread | None:
        """An entry's own spread where two seeds differ, else the column's; None where no seeds tell."""
        spread = Spread(entry.sd, entry.n - 1) if entry.sd else self.shared
        return spread if spread is not None and spread.sd > 0 else None


def judge(table: Table, *, same_scale: bool) -> Verdicts:
    """A verdict for every published value of the table; `same_scale`: our runs are the paper's, setting by setting."""
    verdicts: dict[tuple[int, str], Verdict] = {}
    for name in table.spec.columns:
        column = _Column([row.entries[name] for row in table.rows], table.seed_spread(name))
        if column.printed:
            judged = _levels(column) if same_scale else _directions(column, reference_row(table, name))
            verdicts.update({(index, name): verdict for index, verdict in judged.items()})
    return verdicts


def reference_row(table: Table, column: str) -> int | None:
    """The row that others are compared with: the paper's default, else the first with both numbers; None for none."""
    entries = [row.entries[column] for row in table.rows]
    both = [i for i, entry in enumerate(entries) if entry.mean is not None and entry.published is not None]
    if table.spec.default is None:
        return both[0] if both else None
    wanted = identify({axis: table.spec.default.get(axis) for axis in table.spec.axes})
    return next((i for i in both if identify(table.rows[i].key) == wanted), None)


def _levels(column: _Column) -> dict[int, Verdict]:
    return {i: _level(column, entry) for i, entry in enumerate(column.entries) if entry.published is not None}


def _level(column: _Column, entry: Entry) -> Verdict:
    published = entry.published
    assert published is not None
    if entry.mean is None:
        return Verdict("not run", None, published, "no value of ours")
    spread = column.spread(entry)
    if spread is None:
        return Verdict("undecided", None, published, "no setting has two seeds that differ: seed noise is not known")
    reach, source, digits = spread.t() * spread.sd, _source(entry), column.digits
    half, further = reach / math.sqrt(entry.n), reach * math.sqrt(1 + 1 / entry.n)
    of_mean, of_seed = (entry.mean - half, entry.mean + half), (entry.mean - further, entry.mean + further)
    if _holds(of_mean, published, column.rounding) and half <= SHARP * column.point:
        mean = f"{entry.mean:.{digits}f} ± {half:.{digits}f} ({source})"
        reason = f"{published:g} lies in the interval of our mean, {mean}"
        return Verdict("reproduced", of_mean, published, reason)
    where = f"the interval of one further seed, {entry.mean:.{digits}f} ± {further:.{digits}f} ({source})"
    if _holds(of_seed, published, column.rounding):
        return Verdict("within seed noise", of_seed, published, f"{published:g} lies in {where}")
    side = "above" if published > entry.mean else "below"
    return Verdict("different", of_seed, published, f"{published:g} lies {side} {where}")


def _holds(interval: Interval, published: float, rounding: float) -> bool:
    """Whether some number that is printed as `published` lies in the interval."""
    return interval[0] - rounding <= published <= interval[1] + rounding


def _source(*entries: Entry) -> str:
    """Which seeds an interval comes from."""
    counts = "/".join(dict.fromkeys(str(entry.n) for entry in entries))
    seeds = f"{counts} seed" if counts == "1" else f"{counts} seeds"
    return seeds if all(entry.sd for entry in entries) else f"{seeds}; sd pooled over the column"


def _directions(column: _Column, reference: int | None) -> dict[int, Verdict]:
    verdicts = {}
    for index, entry in enumerate(column.entries):
        if entry.published is None:
            continue
        if entry.mean is None:
            verdicts[index] = Verdict("not run", None, entry.published, "no value of ours")
        elif reference is None:
            verdicts[index] = Verdict("undecided", None, entry.published, "the paper's default row was not run")
        elif index == reference:
            verdicts[index] = Verdict("reference", None, 0.0, "the row that the others are compared with")
        else:
            verdicts[index] = _direction(column, entry, column.entries[reference])
    return verdicts


def _direction(column: _Column, entry: Entry, reference: Entry) -> Verdict:
    """Whether ours and the paper's differences from the reference have one sign."""
    assert None not in (entry.mean, entry.published, reference.mean, reference.published)
    ours, theirs = entry.mean - reference.mean, entry.published - reference.published  # type: ignore[operator]
    interval, digits = _difference(column, entry, reference, ours), column.digits
    reason = f"paper {theirs:+.6g}{_faint(theirs, column)}; ours {round(ours, digits) + 0.0:+.{digits}f}"
    if interval is None:
        return Verdict("undecided", None, theirs, f"{reason}, and no setting has two seeds that differ")
    reason += f", interval {interval[0]:+.{digits}f} to {interval[1]:+.{digits}f} ({_source(entry, reference)})"
    if interval[0] <= 0 <= interval[1] or not theirs:
        return Verdict("undecided", interval, theirs, reason)
    return Verdict("same direction" if (ours > 0) == (theirs > 0) else "opposite direction", interval, theirs, reason)


def _faint(difference: float, column: _Column) -> str:
    """A note on a published difference that a change of seed could make."""
    if not difference:
        return " (equal in the paper)"
    limit = SEED_NOISE * column.point
    return f" (less than the {limit:g} between seeds)" if abs(difference) < limit else ""


def _difference(column: _Column, entry: Entry, reference: Entry, ours: float) -> Interval | None:
    """Welch's interval of a difference of means; the column's spread for both where one has none of its own."""
    if entry.sd and reference.sd:
        error = welch(Spread(entry.sd, entry.n - 1), entry.n, Spread(reference.sd, reference.n - 1), reference.n)
    elif column.shared is not None and column.shared.sd > 0:
        error = Spread(column.shared.sd * math.sqrt(1 / entry.n + 1 / reference.n), column.shared.freedom)
    else:
        return None
    half = error.t() * error.sd
    return ours - half, ours + half
