"""The pictures of one table's columns: a forest of differences, and the paper's order against ours."""

import re

from analysis.render.formats.html import HTML
from analysis.site.content import Scale, Sheet, tone
from analysis.site.drawing import Mark, bump, forest
from analysis.site.grid import anchor, sign
from analysis.tables.columns import Verdict
from analysis.tables.directions import MARGIN

NEEDED = 3
"""Rows with both numbers from which they have an order."""


def of_columns(sheet: Sheet, scale: Scale) -> str:
    """The pictures of every column with verdicts on our values, each column in a block; the first one is open."""
    blocks: list[str] = []
    for column in scale.table.spec.columns:
        pictures = _forest(sheet, scale, column) + _bump(sheet, scale, column)
        if pictures:
            shut = "" if blocks else " open"
            blocks.append(f"<details{shut}><summary><b>{HTML.escape(column)}</b></summary>{pictures}</details>")
    return "\n".join(blocks)


def _forest(sheet: Sheet, scale: Scale, column: str) -> str:
    order = sheet.order(scale.table)
    judged = [(index, scale.verdicts[index, column]) for index in order if (index, column) in scale.verdicts]
    compared = [(index, verdict) for index, verdict in judged if verdict.word not in ("reference", "not run")]
    if not compared:
        return ""
    marks = [_mark(sheet, scale, index, column, verdict) for index, verdict in compared]
    if scale.same:
        heads = ("row", "ours − paper's", "verdict")
        return forest(marks, heads, None, "□ at 0: the paper's value; ● ours with its 95% interval.")
    reference = next((index for index, verdict in judged if verdict.word == "reference"), None)
    base = "the row of reference" if reference is None else sheet.row_name(scale.table.rows[reference])
    band = MARGIN * scale.table.scale(column).point
    key = (
        f"Difference from {base}: □ the paper's; ● ours with the interval of its verdict, that of a tie within "
        f"the grey, ±{band:g}. Seeds: how many would show the paper's difference in four of five tables."
    )
    return forest(marks, ("row", "difference", "seeds"), band, key)


def _mark(sheet: Sheet, scale: Scale, index: int, column: str, verdict: Verdict) -> Mark:
    row = scale.table.rows[index]
    name = sheet.row_name(row)
    link = f'<a href="#{anchor(scale.name, index, column)}">{HTML.escape(name)}</a> {sign(verdict.word)}'
    colour = tone(verdict.word)
    low, high = verdict.interval or (0.0, 0.0)
    ours = (low + high) / 2 if verdict.interval else None
    said = f"{name}: {verdict.word}; {verdict.reason}"
    if scale.same:
        shift, interval = verdict.published, verdict.interval and (low - verdict.published, high - verdict.published)
        return Mark(link, 0.0, None if ours is None else ours - shift, interval or None, verdict.word, colour, said)
    needs = re.search(r"needs (over )?(\d+) seeds", verdict.reason)
    note = f"{'> ' if needs[1] else ''}{needs[2]}" if needs else ""
    return Mark(link, verdict.published, ours, verdict.interval, note, colour, said)


def _bump(sheet: Sheet, scale: Scale, column: str) -> str:
    rows = [
        (sheet.row_name(row), entry.mean, entry.published)
        for row in scale.table.rows
        if (entry := row.entries[column]).mean is not None and entry.published is not None
    ]
    both = [(name, ours, theirs) for name, ours, theirs in rows if ours is not None and theirs is not None]
    return bump(both, scale.table.best(column) == "min") if len(both) >= NEEDED else ""
