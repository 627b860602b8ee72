"""Each row against the reference row: is our difference the paper's way, the other way, none, or still open?"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.statistics.basics import Spread, welch
from analysis.statistics.collapse import collapsed, comparable
from analysis.statistics.contrasts import Array, contrasts, student
from analysis.statistics.looks import MARGIN, NOMINAL, level
from analysis.statistics.needed import MOST, seeds_needed, seeds_to_decide
from analysis.tables.columns import Column, Interval, Verdict, Word
from analysis.tables.spec import TableError

SEED_NOISE = 2.0
"""Points between seeds of one setting at the papers' scale (SimCSE, issue 63)."""
EQUAL = 1e-18
"""A variance below this, in points, is rounding; where the reference does not vary either, no seed tells anything."""


@dataclass(frozen=True)
class Terms:
    """What verdicts are given on, declared before the runs. TableError for a margin of 0 and for too many looks."""

    margin: float = MARGIN
    """Points."""
    looks: Sequence[int] | None = None
    """Numbers of seeds at which the table is looked at; None for one look at all seeds."""
    seconds: float | None = None
    """What a run takes."""
    each: bool = False
    """Whether every contrast has the 5% for itself, as in a table of two rows; else they share it."""

    def __post_init__(self) -> None:
        if not self.margin > 0:
            raise TableError(f"a tie needs a width: margin={self.margin:g}; give points above 0, such as {MARGIN:g}")
        if self.looks is not None and len(self.looks) not in NOMINAL:
            raise TableError(f"at most {max(NOMINAL)} looks: looks={list(self.looks)}; leave some out")

    def declared(self) -> dict[str, Any]:
        """What a sweep keeps of them, so that every page of it judges alike; empty for the usual ones."""
        margin = {} if self.margin == MARGIN else {"margin": self.margin}
        return margin if self.looks is None else margin | {"looks": list(self.looks)}


def declared_terms(spec: Mapping[str, Any], seconds: float | None = None) -> Terms:
    """The terms of a sweep, by what is kept of it. TableError as `Terms`."""
    return Terms(margin=spec.get("margin", MARGIN), looks=spec.get("looks"), seconds=seconds)


@dataclass(frozen=True)
class _Difference:
    """Our difference from the reference at one look."""

    value: float
    half: float
    """Of the interval that decides on a direction."""
    tie_half: float
    """Of the one that decides on a tie."""
    variance: float
    """Within a seed."""
    weight: float
    """Degrees of freedom for each seed but one."""
    seeds: str
    """In words."""
    count: int

    @property
    def interval(self) -> Interval:
        return self.value - self.half, self.value + self.half

    @property
    def sign(self) -> int:
        """Of a difference whose interval excludes 0."""
        return 0 if abs(self.value) <= self.half else 1 if self.value > 0 else -1

    def within(self, margin: float) -> bool:
        return abs(self.value) + self.tie_half < margin


def directions(column: Column, reference: int | None, *, terms: Terms, columns: int = 1) -> dict[int, Verdict]:
    """Row -> verdict for every published value; `columns`: columns of the table that share its error."""
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
    if reference is None:
        return verdicts
    rows = [i for i, entry in enumerate(column.entries) if entry.published is not None and i not in verdicts]
    share = level(1, 1, terms.looks) if terms.each else level(len(rows), columns, terms.looks)
    made = _differences(column, reference, rows, terms, share) if rows else {}
    for index in rows:
        verdicts[index] = _verdict(column, index, reference, made.get(index), terms, share)
    return dict(sorted(verdicts.items()))


def _differences(
    column: Column, reference: int, rows: Sequence[int], terms: Terms, share: float
) -> dict[int, _Difference]:
    """Row -> its difference at the look that decides it, else at the last one; rows without a spread have none."""
    scored, values = _matrix(column)
    looks = [look for look in terms.looks or () if look <= values.shape[1]] or [values.shape[1]]
    made: dict[int, _Difference] = {}
    for look in looks:
        seen = values[:, :look]
        differences = _at_look(seen, scored.index(reference), column.point, share)
        for index in rows:
            before, now = made.get(index), differences.get(scored.index(index))
            is_open = before is None or not (before.sign or before.within(terms.margin * column.point))
            has_more = before is None or np.isfinite(seen[scored.index(index)]).all()
            if now is not None and is_open and has_more:
                made[index] = now
    return made


def _matrix(column: Column) -> tuple[list[int], Array]:
    """The rows with values, and those [R, S] by seed, NaN where a row lacks a seed."""
    scored = [i for i, entry in enumerate(column.entries) if entry.values]
    seeds = sorted({seed for i in scored for seed in column.entries[i].seeds})
    values = np.full((len(scored), len(seeds)), np.nan)
    for row, i in enumerate(scored):
        values[row, [seeds.index(seed) for seed in column.entries[i].seeds]] = column.entries[i].values
    return scored, values


def _at_look(values: Array, reference: int, point: float, share: float) -> dict[int, _Difference]:
    kept = comparable(values[None], reference, point)
    made = contrasts(kept, reference)
    halves, tie_halves = made.half(share)[0], made.half(2 * share)[0]
    varies = np.nanmax(values[reference]) > np.nanmin(values[reference])
    differences = {}
    for place, row in enumerate(np.delete(np.arange(len(values)), reference)):
        seeds, variance = int(made.seeds[0, place]), float(made.variance[0, place])
        if seeds == 0:
            apart = _without_common_seeds(kept[0, row], kept[0, reference], share)
            differences.update({int(row): apart} if apart else {})
        elif np.isfinite(variance) and (varies or variance > EQUAL * point**2):
            weight = max(1.0, made.freedom[0, place] / max(1, seeds - 1))
            differences[int(row)] = _Difference(
                float(made.difference[0, place]), float(halves[place]), float(tie_halves[place]),
                variance, weight, f"{seeds} seed{'s' * (seeds > 1)}", seeds,
            )  # fmt: skip
    return differences


def _without_common_seeds(row: Array, reference: Array, share: float) -> _Difference | None:
    """Welch's difference of means, for rows whose seeds differ; None where one has fewer than two or all are equal.

    With the fewer seeds' degrees of freedom (Hsu 1938): Satterthwaite's miss up to 11% at 3 seeds and corrected levels.
    """
    mine, theirs = row[np.isfinite(row)], reference[np.isfinite(reference)]
    fewest = min(len(mine), len(theirs))
    if fewest < 2 or not (mine.std() or theirs.std()):
        return None
    spreads = Spread(float(mine.std(ddof=1)), len(mine) - 1), Spread(float(theirs.std(ddof=1)), len(theirs) - 1)
    error = welch(spreads[0], len(mine), spreads[1], len(theirs)).sd
    half, tie_half = (float(student(level, fewest - 1.0)) * error for level in (share, 2 * share))
    seeds = f"{len(mine)}/{len(theirs)} seeds, none in common"
    return _Difference(float(mine.mean() - theirs.mean()), half, tie_half, error**2 * fewest, 1.0, seeds, fewest)


def _verdict(
    column: Column, index: int, reference: int, ours: _Difference | None, terms: Terms, share: float
) -> Verdict:
    """The word for one row, and why."""
    entry, base = column.entries[index], column.entries[reference]
    assert entry.mean is not None and base.mean is not None and entry.published is not None
    theirs, digits = entry.published - (base.published or 0.0), column.digits
    fallen = _fallen(column, index)
    note = f"; {fallen} of {entry.n} seeds collapsed" if fallen else ""
    if ours is None:
        difference = round(entry.mean - base.mean, digits) + 0.0
        unknown = f"; ours {difference:+.{digits}f}, and no setting has two seeds that differ"
        reason = f"paper {theirs:+.6g}{_faint(theirs, column)}" + (f"{note}, too few are left" if fallen else unknown)
        return Verdict("undecided", None, theirs, reason, collapsed=fallen)
    needed = seeds_needed(theirs, ours.variance, ours.weight, share) if theirs else None
    low, high = ours.interval
    reason = (
        f"paper {theirs:+.6g}{_faint(theirs, column, _needs(needed))}; "
        f"ours {round(ours.value, digits) + 0.0:+.{digits}f}, "
        f"interval {low:+.{digits}f} to {high:+.{digits}f} ({ours.seeds}){note}"
    )
    margin = terms.margin * column.point
    word, why, more = _word(ours, theirs, needed, margin, share)
    if more and terms.seconds:
        why += f" ({2 * more} runs, {math.ceil(2 * more * terms.seconds / 60)} min)"
    return Verdict(word, ours.interval, theirs, reason + why, needed, more, fallen)


def _word(
    ours: _Difference, theirs: float, needed: int | None, margin: float, share: float
) -> tuple[Word, str, int | None]:
    """The word, the clause that explains it, and the seeds that an open row lacks."""
    if ours.sign and theirs:
        return ("same direction" if (ours.sign > 0) == (theirs > 0) else "opposite direction"), "", None
    if ours.within(margin):
        where = ", where the paper's gap is wider" if abs(theirs) > margin else ", as the paper's gap is"
        return "tie", f"; within ±{margin:g}{where}", None
    if ours.sign:
        return "undecided", "; the paper's rows are equal, so that ours has no direction to share", None
    total = seeds_to_decide(ours.value, margin, ours.variance, ours.weight, share)
    more = None if total is None else max(1, total - ours.count)
    below = theirs and (needed is None or needed > ours.count)
    why = "; the paper's own gap is below what seeds do" if below else "; ours is too wide"
    return "undecided", f"{why}; {f'about {more}' if more else f'over {MOST}'} more seeds would decide it", more


def _fallen(column: Column, index: int) -> int:
    """Collapsed seeds of one row."""
    scored, values = _matrix(column)
    return int(collapsed(values[None], column.point)[0, scored.index(index)].sum())


def _needs(seeds: int | None) -> str:
    return f"needs {seeds} seeds" if seeds else f"needs over {MOST} seeds"


def _faint(difference: float, column: Column, needs: str = "") -> str:
    """Notes on a published difference: what it would need, and that a change of seed could make it."""
    if not difference:
        return " (equal in the paper)"
    limit = SEED_NOISE * column.point
    notes = [f"less than the {limit:g} between seeds"] * (abs(difference) < limit) + [needs] * bool(needs)
    return f" ({', '.join(notes)})" if notes else ""
