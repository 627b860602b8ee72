"""Pictures of a table's columns: a forest plot of differences, and the paper's row order against the measured one."""

import re
from collections.abc import Mapping, Sequence

import markupsafe

from analysis.tables.columns import Verdict
from analysis.tables.directions import TIE_MARGIN
from cse.site.content import Scale, Sheet, tone
from cse.site.drawing import Mark, bump, forest
from cse.site.grid import anchor

NEEDED = 3
"""Fewest rows with both numbers for which an order is drawn."""


def plot_columns(sheet: Sheet, scale: Scale) -> Mapping[str, Sequence[markupsafe.Markup]]:
    """Returns column -> pictures, for every column with verdicts on measured values."""
    columns = scale.table.spec.columns
    drawn = {column: [*_forest(sheet, scale, column), *_bump(sheet, scale, column)] for column in columns}
    return {column: pictures for column, pictures in drawn.items() if pictures}


def _forest(sheet: Sheet, scale: Scale, column: str) -> list[markupsafe.Markup]:
    order = sheet.order(scale.table)
    judged = [(index, scale.verdicts[index, column]) for index in order if (index, column) in scale.verdicts]
    compared = [(index, verdict) for index, verdict in judged if verdict.word not in ("reference", "not run")]
    if not compared:
        return []
    marks = [_mark(sheet, scale, index, column, verdict) for index, verdict in compared]
    if scale.same:
        heads = ("row", "ours − paper's", "verdict")
        return [forest(marks, heads, None, "□ at 0: the paper's value; ● ours with its 95% interval.")]
    reference = next((index for index, verdict in judged if verdict.word == "reference"), None)
    base = "the row of reference" if reference is None else sheet.row_name(scale.table.rows[reference])
    band = TIE_MARGIN * scale.table.scale(column).point
    key = (
        f"Difference from {base}: □ the paper's; ● ours with the interval of its verdict, that of a tie within "
        f"the grey, ±{band:g}. Seeds: how many would show the paper's difference in four of five tables."
    )
    return [forest(marks, ("row", "difference", "seeds"), band, key)]


def _mark(sheet: Sheet, scale: Scale, index: int, column: str, verdict: Verdict) -> Mark:
    name = sheet.row_name(scale.table.rows[index])
    low, high = verdict.interval or (0.0, 0.0)
    paper, shift = 0.0, verdict.published
    note: str = verdict.word
    if not scale.same:
        paper, shift = verdict.published, 0.0
        needs = re.search(r"needs (over )?(\d+) seeds", verdict.reason)
        note = f"{'> ' if needs[1] else ''}{needs[2]}" if needs else ""
    return Mark(
        name=name,
        anchor=anchor(scale.name, index, column),
        verdict=verdict.word,
        tone=tone(verdict.word),
        paper=paper,
        ours=(low + high) / 2 - shift if verdict.interval else None,
        interval=(low - shift, high - shift) if verdict.interval else None,
        note=note,
        said=f"{name}: {verdict.word}; {verdict.reason}",
    )


def _bump(sheet: Sheet, scale: Scale, column: str) -> list[markupsafe.Markup]:
    rows = [
        (sheet.row_name(row), entry.mean, entry.published)
        for row in scale.table.rows
        if (entry := row.entries[column]).mean is not None and entry.published is not None
    ]
    complete = [(name, ours, published) for name, ours, published in rows if ours is not None and published is not None]
    return [bump(complete, scale.table.best(column) == "min")] if len(complete) >= NEEDED else []
