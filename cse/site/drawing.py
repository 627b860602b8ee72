"""Draws a table's columns and the curves of its runs as SVG and HTML that follow the page's colours and width.

Positions are percentages of the width; curves are stretched, but not their line widths, dots and texts.
"""

import functools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import markupsafe

from analysis.answers.judge import Judgement
from analysis.render.templates import fill
from analysis.statistics.looks import TIE_MARGIN
from cse.site.content import NOT_COMPARED, Scale, Sheet, tone

HEADROOM = 1.25
"""Ratio of the axis's end to the largest difference; an interval beyond it ends in an arrow."""
TICKS = 2
"""Maximum number of tick marks on either side of 0."""
NEEDED = 3
"""Fewest rows with both numbers for which an order is drawn."""


@dataclass(frozen=True)
class Curve:
    """Dev scores of one seed over its training examples."""

    seed: int
    examples: Sequence[int]
    values: Sequence[float]
    best: int | None
    """Training examples at the best score."""


@dataclass(frozen=True)
class Mark:
    """One row of a forest plot; differences are in the column's units."""

    name: str
    anchor: str
    """Anchor of the runs behind the row, on the same page."""
    verdict: str
    tone: str
    paper: float | None
    ours: float | None
    interval: tuple[float, float] | None
    note: str
    said: str
    """Description of the row for screen readers."""


@dataclass(frozen=True)
class Axis:
    """Axis from `-limit` to `limit` across a column."""

    limit: float

    def at(self, value: float) -> str:
        """Returns a value's position; beyond the axis, that of its end."""
        return f"{50 + 50 * max(-self.limit, min(self.limit, value)) / self.limit:.2f}%"

    def width(self, value: float) -> str:
        """Returns the width of a band that reaches `value` to both sides of 0."""
        return f"{100 * value / self.limit:.2f}%"

    @functools.cached_property
    def step(self) -> float:
        """Returns the distance of ticks: the least of 1, 2, 5, 10, ... with at most TICKS of them on either side."""
        steps = (10.0**power * n for power in range(-6, 12) for n in (1, 2, 5))
        return next(step for step in steps if int(0.9 * self.limit / step) <= TICKS)

    @property
    def ticks(self) -> list[tuple[float, str, bool]]:
        """Returns (value, its text, whether narrow screens leave it out) for each tick."""
        most, digits = int(0.9 * self.limit / self.step), max(0, -math.floor(math.log10(self.step)))
        numbers = [(n, self.step * n) for n in range(-most, most + 1)]
        texts = [f"{number:+.{digits}f}".replace("-", "−") if number else "0" for _, number in numbers]
        return [(number, text, most > 1 and n % 2 == 1) for (n, number), text in zip(numbers, texts, strict=True)]


def plot_columns(sheet: Sheet, scale: Scale) -> Mapping[str, Sequence[markupsafe.Markup]]:
    """Returns column -> pictures, for every column with verdicts on measured values."""
    columns = scale.table.spec.columns
    drawn = {column: [*_forest(sheet, scale, column), *_bump(sheet, scale, column)] for column in columns}
    return {column: pictures for column, pictures in drawn.items() if pictures}


def _forest(sheet: Sheet, scale: Scale, column: str) -> list[markupsafe.Markup]:
    order = sheet.order(scale.table)
    judged = [(index, scale.verdicts[index, column]) for index in order if (index, column) in scale.verdicts]
    compared = [(index, verdict) for index, verdict in judged if verdict.word not in NOT_COMPARED]
    if not compared:
        return []
    marks = [_mark(sheet, scale, index, column, verdict) for index, verdict in compared]
    if scale.same:
        heads = ("row", "ours − paper's", "verdict")
        return [forest(marks, heads, None, "□ at 0: the paper's value; ● ours with the interval of one further seed.")]
    reference = next((index for index, verdict in judged if verdict.word == "reference"), None)
    base = "the row of reference" if reference is None else sheet.row_name(scale.table.rows[reference])
    band = TIE_MARGIN * scale.table.scale(column).point
    key = (
        f"Difference from {base}: □ the paper's; ● ours with the interval of its verdict, that of a tie within "
        f"the grey, ±{band:g}. Seeds: how many would show the paper's difference in four of five tables."
    )
    return [forest(marks, ("row", "difference", "seeds"), band, key)]


def _mark(sheet: Sheet, scale: Scale, index: int, column: str, verdict: Judgement) -> Mark:
    name = sheet.row_name(scale.table.rows[index])
    low, high = verdict.interval or (0.0, 0.0)
    published = verdict.published or 0.0
    paper, shift = 0.0, published
    note: str = verdict.word
    if not scale.same:
        paper, shift = published, 0.0
        needs = re.search(r"needs (over )?(\d+) seeds", verdict.reason)
        note = f"{'> ' if needs[1] else ''}{needs[2]}" if needs else ""
    return Mark(
        name=name,
        anchor=scale.anchor(index, column),
        verdict=verdict.word,
        tone=tone(verdict.word),
        paper=paper,
        ours=verdict.difference if verdict.interval else None,
        interval=(low - shift, high - shift) if verdict.interval else None,
        note=note,
        said=f"{name}: {verdict.word}; {verdict.reason}",
    )


def _bump(sheet: Sheet, scale: Scale, column: str) -> list[markupsafe.Markup]:
    entries = [(sheet.row_name(row), row.entries[column]) for row in scale.table.rows]
    rows = [(name, e.mean, e.published) for name, e in entries if e.mean is not None and e.published is not None]
    return [bump(rows, scale.table.best(column) == "min")] if len(rows) >= NEEDED else []


def curves(lines: Sequence[Curve], metric: str) -> markupsafe.Markup:
    """Draws the curves of some seeds with a legend, and a dot at each best score."""
    xs, ys = [x for line in lines for x in line.examples], [y for line in lines for y in line.values]
    left, right, low, high = min(xs), max(xs), min(ys), max(ys)
    padding = (high - low) * 0.06 or 0.5
    low, high = low - padding, high + padding

    def at(x: float, y: float) -> str:
        x_percent = 50.0 if right == left else 100 * (x - left) / (right - left)
        return f"{x_percent:.2f} {100 * (high - y) / (high - low):.2f}"

    paths = []
    for line in lines:
        points = list(zip(line.examples, line.values, strict=True))
        path = "M" + " L".join(at(*point) for point in points) if len(points) > 1 else f"M{at(*points[0])} h0"
        paths.append((path, [at(x, y) for x, y in points if x == line.best]))
    ends = ", ".join(f"seed {line.seed} ends at {line.values[-1]:.2f}" for line in lines)
    description = f"{metric} from {left:,} to {right:,} training examples: {ends}"
    return fill(
        "cse/site/curves.html",
        paths=paths,
        seeds=[line.seed for line in lines],
        metric=metric,
        said=description,
        across=(f"{left:,}", f"{right:,}"),
        upright=(f"{low:.1f}", f"{high:.1f}"),
    )


def forest(marks: Sequence[Mark], heads: tuple[str, str, str], band: float | None, key: str) -> markupsafe.Markup:
    """Draws a table whose middle column shows each row's difference; `band`: half-width of a tie, None without ties."""
    reach = [abs(value) for mark in marks for value in (mark.paper, mark.ours) if value is not None]
    axis = Axis(max([*reach, (band or 0.0) * 1.5, 1e-9]) * HEADROOM)
    return fill("cse/site/forest.html", marks=marks, heads=heads, band=band, key=key, axis=axis)


def bump(rows: Sequence[tuple[str, float, float]], lower_is_better: bool) -> markupsafe.Markup:
    """Draws rows (name, measured, published) in the paper's order on the left and the measured one on the right."""
    sign = 1 if lower_is_better else -1
    paper_order = sorted(range(len(rows)), key=lambda row: (sign * rows[row][2], row))
    measured_order = sorted(range(len(rows)), key=lambda row: (sign * rows[row][1], paper_order.index(row)))
    positions = [f"{100 * (place + 0.5) / len(rows):.2f}%" for place in range(len(rows))]
    moves = [(paper_order.index(row), measured_order.index(row)) for row in range(len(rows))]
    moved = sum(theirs != ours for theirs, ours in moves)
    description = f"{moved} of {len(rows)} rows stand in another place than in the paper"
    tall = max(-(-len(name) // 20) for name, _, _ in rows)
    return fill(
        "cse/site/bump.html",
        moves=moves,
        paper=[rows[row][0] for row in paper_order],
        measured=[(paper_order.index(row) + 1, rows[row][0], f"{rows[row][1]:.2f}") for row in measured_order],
        positions=positions,
        said=description,
        tall=min(tall, 4),
    )
