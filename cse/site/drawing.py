"""Draws pictures of a table as SVG and HTML that follow the page's colours and width; text keeps its size.

Positions are percentages of the width; curves are stretched, but not their line widths and dots.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import markupsafe

from analysis.render.templates import fill

HEADROOM = 1.25
"""Ratio of the axis's end to the largest difference; an interval beyond it ends in an arrow."""
TICKS = 2
"""Maximum number of tick marks on either side of 0."""


@dataclass(frozen=True)
class Curve:
    """Dev scores of one seed over its training examples."""

    seed: int
    examples: Sequence[int]
    values: Sequence[float]
    best: int | None
    """Training examples at the best score."""


@dataclass(frozen=True)
class Path:
    """A curve in a square of 100 by 100: an SVG path, and the points of best scores."""

    path: str
    dots: Sequence[str]


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
        paths.append(Path(path, [at(x, y) for x, y in points if x == line.best]))
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


def forest(marks: Sequence[Mark], heads: tuple[str, str, str], band: float | None, key: str) -> markupsafe.Markup:
    """Draws a table whose middle column shows each row's difference; `band`: half-width of a tie, None without ties."""
    reach = [abs(value) for mark in marks for value in (mark.paper, mark.ours) if value is not None]
    axis = Axis(max([*reach, (band or 0.0) * 1.5, 1e-9]) * HEADROOM)
    return fill("cse/site/forest.html", marks=marks, heads=heads, band=band, key=key, axis=axis)


@dataclass(frozen=True)
class Move:
    """Places of a row in the paper's order and in the measured order; 1 is the best."""

    name: str
    theirs: int
    ours: int
    score: str
    ends: tuple[str, str]
    """Vertical positions of the start and the end of the line between the two places."""

    @property
    def way(self) -> str:
        """Returns the direction of the line, from the paper's place to the measured one."""
        return "same" if self.theirs == self.ours else "rise" if self.ours < self.theirs else "fall"


def bump(rows: Sequence[tuple[str, float, float]], lower_is_better: bool) -> markupsafe.Markup:
    """Draws rows (name, measured, published) in the paper's order on the left and the measured one on the right."""
    sign = 1 if lower_is_better else -1
    paper_order = sorted(range(len(rows)), key=lambda row: (sign * rows[row][2], row))
    measured_order = sorted(range(len(rows)), key=lambda row: (sign * rows[row][1], paper_order.index(row)))
    positions = [f"{100 * (place + 0.5) / len(rows):.2f}%" for place in range(len(rows))]
    moves = []
    for row, (name, score, _) in enumerate(rows):
        start, end = paper_order.index(row), measured_order.index(row)
        moves.append(Move(name, start + 1, end + 1, f"{score:.2f}", (positions[start], positions[end])))
    moved = sum(move.way != "same" for move in moves)
    description = f"{moved} of {len(rows)} rows stand in another place than in the paper"
    tall = max(-(-len(name) // 20) for name, _, _ in rows)
    return fill("cse/site/bump.html", moves=moves, said=description, tall=min(tall, 4))
