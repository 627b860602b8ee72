"""Compares a reproduced table with the paper's: a verdict with an interval and a reason for every published value.

At the paper's own scale values are compared; at another scale only the direction of each row from a reference row.
"""

import math
from collections.abc import Mapping

from analysis.statistics.basics import CONFIDENCE
from analysis.tables.aggregate import Table
from analysis.tables.columns import Column, Entry, Interval, Verdict
from analysis.tables.directions import Terms, directions
from analysis.tables.labels import number_of
from analysis.tables.spec import identify

REPRODUCED_HALF_WIDTH = 1.0
"""Widest half interval of the mean over seeds, in points, for the verdict `reproduced`."""

VERDICT_LEVEL = round(1 - CONFIDENCE, 12)
"""Error rate of an interval of a mean or of one further seed."""

Verdicts = Mapping[tuple[int, str], Verdict]
"""(row index, column) -> verdict; values that the paper does not print have none."""


def judge(table: Table, *, same_scale: bool, terms: Terms | None = None) -> Verdicts:
    """Returns a verdict for every published value of a table.

    `same_scale` says that the runs are the paper's, setting by setting. Then values are compared, which needs no
    signal.
    """
    verdicts: dict[tuple[int, str], Verdict] = {}
    terms = terms or Terms()
    names = [name for name in table.spec.columns if any(row.entries[name].published is not None for row in table.rows)]
    for name in names:
        column = Column([row.entries[name] for row in table.rows], table.seed_spread(name), table.scale(name))
        if same_scale:
            judged = {
                i: _judge_value(column, entry) for i, entry in enumerate(column.entries) if entry.published is not None
            }
        else:
            reference = reference_row(table, name)
            judged = directions(column, reference, terms=terms, columns=len(names), no_signal=table.no_signal)
        verdicts.update({(index, name): verdict for index, verdict in judged.items()})
    return verdicts


def reference_row(table: Table, column: str) -> int | None:
    """Returns the index of the reference row: the paper's default, else the first with both numbers, else None."""
    entries = [row.entries[column] for row in table.rows]
    scored_rows = [i for i, entry in enumerate(entries) if entry.mean is not None and entry.published is not None]
    if table.spec.default is None:
        return scored_rows[0] if scored_rows else None
    default_key = identify({axis: table.spec.default.get(axis) for axis in table.spec.axes})
    return next((i for i in scored_rows if identify(table.rows[i].key) == default_key), None)


def _judge_value(column: Column, entry: Entry) -> Verdict:
    published = entry.published
    assert published is not None
    if entry.mean is None:
        return Verdict("not run", None, published, "no value of ours")
    spread = column.spread(entry)
    if spread is None:
        return Verdict("undecided", None, published, "no setting has two seeds that differ: seed noise is not known")
    reach, digits = spread.t() * spread.sd, column.digits
    source = number_of(entry.n, "seed") + ("" if entry.sd else "; sd pooled over the column")
    half, further = reach / math.sqrt(entry.n), reach * math.sqrt(1 + 1 / entry.n)
    mean_range, seed_range = (entry.mean - half, entry.mean + half), (entry.mean - further, entry.mean + further)
    if _contains(mean_range, published, column.rounding) and half <= REPRODUCED_HALF_WIDTH * column.point:
        mean = f"{entry.mean:.{digits}f} ± {half:.{digits}f} ({source})"
        reason = f"{published:g} lies in the interval of our mean, {mean}"
        return Verdict("reproduced", mean_range, published, reason, level=VERDICT_LEVEL)
    span = f"the interval of one further seed, {entry.mean:.{digits}f} ± {further:.{digits}f} ({source})"
    if _contains(seed_range, published, column.rounding):
        return Verdict("within seed noise", seed_range, published, f"{published:g} lies in {span}", level=VERDICT_LEVEL)
    side = "above" if published > entry.mean else "below"
    return Verdict("different", seed_range, published, f"{published:g} lies {side} {span}", level=VERDICT_LEVEL)


def _contains(interval: Interval, published: float, rounding: float) -> bool:
    """Returns whether some number that is printed as `published` lies in the interval."""
    return interval[0] - rounding <= published <= interval[1] + rounding
