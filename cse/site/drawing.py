"""Pictures of a table as SVG and HTML that follow the page's colours and width: letters keep their size on any screen.

Places are percentages of the width; curves are stretched, their lines and dots are not.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import markupsafe

from analysis.render.templates import fill

HEADROOM = 1.25
"""The scale's end over the largest difference; an interval beyond it ends in an arrow."""
TICKS = 2
"""Marks at most on either side of 0."""


@dataclass(frozen=True)
class Curve:
    """A seed's dev scores over its training examples."""

    seed: int
    examples: Sequence[int]
    values: Sequence[float]
    best: int | None
    """Examples at which the best score stands."""


@dataclass(frozen=True)
class Path:
    """A curve in a square of 100 by 100: SVG's path, and its point at each best score."""

    path: str
    dots: Sequence[str]


def curves(lines: Sequence[Curve], metric: str) -> markupsafe.Markup:
    """A figure of some seeds' curves with a list of whose line is whose; a dot at each best score."""
    xs, ys = [x for line in lines for x in line.examples], [y for line in lines for y in line.values]
    left, right, low, high = min(xs), max(xs), min(ys), max(ys)
    spare = (high - low) * 0.06 or 0.5
    low, high = low - spare, high + spare

    def at(x: float, y: float) -> str:
        across = 50.0 if right == left else 100 * (x - left) / (right - left)
        return f"{across:.2f} {100 * (high - y) / (high - low):.2f}"

    paths = []
    for line in lines:
        points = list(zip(line.examples, line.values, strict=True))
        path = "M" + " L".join(at(*point) for point in points) if len(points) > 1 else f"M{at(*points[0])} h0"
        paths.append(Path(path, [at(x, y) for x, y in points if x == line.best]))
    ends = ", ".join(f"seed {line.seed} ends at {line.values[-1]:.2f}" for line in lines)
    said = f"{metric} from {left:,} to {right:,} training examples: {ends}"
    return fill(
        "cse/site/curves.html",
        paths=paths,
        seeds=[line.seed for line in lines],
        metric=metric,
        said=said,
        across=(f"{left:,}", f"{right:,}"),
        upright=(f"{low:.1f}", f"{high:.1f}"),
    )


@dataclass(frozen=True)
class Mark:
    """One row of a forest plot; differences in the column's units."""

    name: str
    anchor: str
    """The place on the page where the runs behind it stand."""
    verdict: str
    tone: str
    paper: float | None
    ours: float | None
    interval: tuple[float, float] | None
    note: str
    said: str
    """The row in words, for those who do not see it."""


@dataclass(frozen=True)
class Axis:
    """A scale from `-limit` to `limit` across a column."""

    limit: float

    def at(self, value: float) -> str:
        """The place of a value, at the end where it is beyond."""
        return f"{50 + 50 * max(-self.limit, min(self.limit, value)) / self.limit:.2f}%"

    def width(self, value: float) -> str:
        """How wide a stretch is that reaches as far to both sides of 0."""
        return f"{100 * value / self.limit:.2f}%"

    @functools.cached_property
    def step(self) -> float:
        """From one number to the next: the least of 1, 2, 5, 10, ... that gives few enough."""
        steps = (10.0**power * n for power in range(-6, 12) for n in (1, 2, 5))
        return next(step for step in steps if int(0.9 * self.limit / step) <= TICKS)

    @property
    def ticks(self) -> list[tuple[float, str, bool]]:
        """(value, its text, whether a narrow screen goes without it)."""
        most, digits = int(0.9 * self.limit / self.step), max(0, -math.floor(math.log10(self.step)))
        numbers = [(n, self.step * n) for n in range(-most, most + 1)]
        texts = [f"{number:+.{digits}f}".replace("-", "−") if number else "0" for _, number in numbers]
        return [(number, text, most > 1 and n % 2 == 1) for (n, number), text in zip(numbers, texts, strict=True)]


def forest(marks: Sequence[Mark], heads: tuple[str, str, str], band: float | None, key: str) -> markupsafe.Markup:
    """A table whose middle column draws each row; `band`: half the width of a tie, where there are ties."""
    reach = [abs(value) for mark in marks for value in (mark.paper, mark.ours) if value is not None]
    axis = Axis(max([*reach, (band or 0.0) * 1.5, 1e-9]) * HEADROOM)
    return fill("cse/site/forest.html", marks=marks, heads=heads, band=band, key=key, axis=axis)


@dataclass(frozen=True)
class Move:
    """A row's places in two orders, the best one 1."""

    name: str
    theirs: int
    ours: int
    score: str
    ends: tuple[str, str]
    """How far down the line between its places starts and ends."""

    @property
    def way(self) -> str:
        """Where the line goes, from theirs to ours."""
        return "same" if self.theirs == self.ours else "rise" if self.ours < self.theirs else "fall"


def bump(rows: Sequence[tuple[str, float, float]], lower_is_better: bool) -> markupsafe.Markup:
    """Rows (name, ours, published) in the paper's order on the left and in ours on the right, joined by lines."""
    sign = 1 if lower_is_better else -1
    theirs = sorted(range(len(rows)), key=lambda row: (sign * rows[row][2], row))
    ours = sorted(range(len(rows)), key=lambda row: (sign * rows[row][1], theirs.index(row)))
    down = [f"{100 * (place + 0.5) / len(rows):.2f}%" for place in range(len(rows))]
    moves = []
    for row, (name, score, _) in enumerate(rows):
        start, end = theirs.index(row), ours.index(row)
        moves.append(Move(name, start + 1, end + 1, f"{score:.2f}", (down[start], down[end])))
    moved = sum(move.way != "same" for move in moves)
    said = f"{moved} of {len(rows)} rows stand in another place than in the paper"
    tall = max(-(-len(name) // 20) for name, _, _ in rows)
    return fill("cse/site/bump.html", moves=moves, said=said, tall=min(tall, 4))
