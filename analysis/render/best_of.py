"""Describes the worth of the best of some seeds by dev in words."""

from analysis.tables.aggregate import Table
from analysis.tables.columns import Entry
from analysis.tables.labels import label
from analysis.tables.spec import MetricScale

SEEDS_FOR_LINE = 5
"""Least number of seeds of a row with a line; rows with fewer appear only in JSON and `cse explain`."""


def describe_best_of(entry: Entry, scale: MetricScale) -> str:
    """Returns `best of 1, 3, 5 seeds by dev: 75.11 ± 0.12, ...; the published 76.25 takes the best of 20`; empty for
    none.

    The number after ± is the standard error; a published value may also lie beyond the best of all seeds.
    """
    picks, digits = entry.best_of, scale.digits(entry.values)
    if picks is None:
        return ""
    values = [
        f"{expected:.{digits}f}" + ("" if error is None else f" ± {error:.{digits}f}")
        for expected, error in zip(picks.expected, picks.error, strict=True)
    ]
    published = _describe_published(entry, picks.for_published, scale)
    return f"best of {', '.join(map(str, picks.seeds))} seeds by dev: {', '.join(values)}{published}"


def describe_ranges(entry: Entry, scale: MetricScale) -> str:
    """Returns a text on the ranges that hold 95% of the picks; empty for too few seeds."""
    digits, picks = scale.digits(entry.values), entry.best_of
    ranges = zip(picks.seeds, picks.range, strict=True) if picks else ()
    texts = [f"of {seeds} {ends[0]:.{digits}f} to {ends[1]:.{digits}f}" for seeds, ends in ranges if ends]
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


def _describe_published(entry: Entry, seeds: int | None, scale: MetricScale) -> str:
    if entry.published is None:
        return ""
    if seeds is not None:
        return f"; the published {entry.published:g} takes the best of {seeds}"
    side, extreme = ("below", min) if scale.better == "lower" else ("above", max)
    sign = -1 if scale.better == "lower" else 1
    beyond_all = sign * (entry.published - extreme(entry.values)) > 0
    every = f", and {side} every one of them" if beyond_all else ""
    return f"; the published {entry.published:g} lies {side} the best of any number of these {entry.n}{every}"
