"""Describes the worth of the best of some seeds by dev, in words and as plain data."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from analysis.documents import OPTIONAL
from analysis.tables.aggregate import Table
from analysis.tables.columns import Entry
from analysis.tables.labels import label
from analysis.tables.spec import MetricScale

SEEDS_FOR_LINE = 5
"""Least number of seeds of a row with a line; rows with fewer appear only in JSON and `cse explain`."""


@dataclass(frozen=True, kw_only=True)
class SeedPicks:
    """Worth of the best of some seeds by dev, for each number of seeds."""

    seeds: Sequence[int]
    expected: Sequence[float]
    """Expected score of the seed with the best dev score."""
    error: Sequence[float | None]
    """Standard error of the expected score."""
    range: Sequence[tuple[float, float] | None]
    """Range that holds 95% of the picks; None for too few seeds."""
    for_published: int | None = field(default=0, metadata=OPTIONAL)
    """Fewest seeds whose best is expected to reach the published value, None if none do; 0 without such a value."""


def pick_seeds(entry: Entry, scale: MetricScale) -> SeedPicks | None:
    """Returns the worth of the best of some of an entry's seeds; None for too few seeds, or without dev scores."""
    best_of = entry.best_of
    if not best_of:
        return None
    return SeedPicks(
        seeds=[best.seeds for best in best_of],
        expected=[best.expected for best in best_of],
        error=[best.error for best in best_of],
        range=[best.spread or None for best in best_of],
        for_published=0 if entry.published is None else entry.seeds_for_published(scale),
    )


def describe_best_of(entry: Entry, scale: MetricScale) -> str:
    """Returns `best of 1, 3, 5 seeds by dev: 75.11 ± 0.12, ...; the published 76.25 takes the best of 20`; empty for
    none.

    The number after ± is the standard error; a published value may also lie beyond the best of all seeds.
    """
    best_of, digits = entry.best_of, scale.digits(entry.values)
    if not best_of:
        return ""
    values = [f"{b.expected:.{digits}f}" + ("" if b.error is None else f" ± {b.error:.{digits}f}") for b in best_of]
    counts = ", ".join(str(best.seeds) for best in best_of)
    return f"best of {counts} seeds by dev: {', '.join(values)}{_describe_published(entry, scale)}"


def describe_ranges(entry: Entry, scale: MetricScale) -> str:
    """Returns a text on the ranges that hold 95% of the picks; empty for too few seeds."""
    digits = scale.digits(entry.values)
    ranges = [(best.seeds, best.spread) for best in entry.best_of if best.spread]
    texts = [f"of {seeds} {low:.{digits}f} to {high:.{digits}f}" for seeds, (low, high) in ranges]
    return f"95% of such picks: {', '.join(texts)}" if texts else ""


def best_of_lines(table: Table) -> list[str]:
    """Returns a line for each column and row that has enough seeds and dev scores."""
    return [
        f"{column} of {label(row.key, table.named)}: {line}"
        for column in table.spec.columns
        for row in table.rows
        if row.entries[column].n >= SEEDS_FOR_LINE
        and (line := describe_best_of(row.entries[column], table.scale(column)))
    ]


def _describe_published(entry: Entry, scale: MetricScale) -> str:
    if entry.published is None:
        return ""
    seeds = entry.seeds_for_published(scale)
    if seeds is not None:
        return f"; the published {entry.published:g} takes the best of {seeds}"
    side, extreme = ("below", min) if scale.better == "lower" else ("above", max)
    sign = -1 if scale.better == "lower" else 1
    beyond_all = sign * (entry.published - extreme(entry.values)) > 0
    every = f", and {side} every one of them" if beyond_all else ""
    return f"; the published {entry.published:g} lies {side} the best of any number of these {entry.n}{every}"
