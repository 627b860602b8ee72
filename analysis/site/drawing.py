"""Pictures of a table as SVG and HTML that follow the page's colours and width: letters keep their size on any screen.

Places are percentages of the width; curves are stretched, their lines and dots are not.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

LANES = 8
"""Styles of a seed's line; the ninth seed has the first one's."""
HEADROOM = 1.25
"""The scale's end over the largest difference; an interval beyond it ends in an arrow."""
TICKS = 2
"""Marks at most on either side of 0."""
SPARE = ' class="spare"'
"""A mark that a narrow screen goes without."""


@dataclass(frozen=True)
class Curve:
    """A seed's dev scores over its training examples."""

    seed: int
    examples: Sequence[int]
    values: Sequence[float]
    best: int | None
    """Examples at which the best score stands."""


def lane(place: int) -> str:
    """The class of a seed's line."""
    return f"k{place % LANES}"


def swatch(place: int) -> str:
    """A piece of a seed's line, for a list of seeds."""
    return f'<svg class="swatch {lane(place)}" aria-hidden="true"><line x1="0" x2="100%" y1="50%" y2="50%"/></svg>'


def curves(lines: Sequence[Curve], metric: str) -> str:
    """A figure of some seeds' curves; a dot at each best score."""
    xs, ys = [x for line in lines for x in line.examples], [y for line in lines for y in line.values]
    left, right, low, high = min(xs), max(xs), min(ys), max(ys)
    spare = (high - low) * 0.06 or 0.5
    low, high = low - spare, high + spare

    def at(x: float, y: float) -> str:
        across = 50.0 if right == left else 100 * (x - left) / (right - left)
        return f"{across:.2f} {100 * (high - y) / (high - low):.2f}"

    drawn = []
    for place, line in enumerate(lines):
        points = list(zip(line.examples, line.values, strict=True))
        path = "M" + " L".join(at(*point) for point in points) if len(points) > 1 else f"M{at(*points[0])} h0"
        dots = "".join(f'<path class="dot" d="M{at(x, y)} h0"/>' for x, y in points if x == line.best)
        drawn.append(f'<g class="{lane(place)}"><path d="{path}"/>{dots}</g>')
    ends = ", ".join(f"seed {line.seed} ends at {line.values[-1]:.2f}" for line in lines)
    said = escape(f"{metric} from {left:,} to {right:,} training examples: {ends}")
    return (
        f'<figure class="curve"><div class="frame"><span class="top">{high:.1f}</span>'
        f'<span class="bottom">{low:.1f}</span><svg viewBox="0 0 100 100" preserveAspectRatio="none" role="img" '
        f'aria-label="{said}">{"".join(drawn)}</svg></div><div class="ends"><span>{left:,}</span>'
        f"<span>training examples</span><span>{right:,}</span></div>"
        f"<figcaption>{escape(metric)}, a line for each seed; the dot is the best.</figcaption></figure>"
    )


@dataclass(frozen=True)
class Mark:
    """One row of a forest plot; differences in the column's units."""

    name: str
    """As HTML."""
    paper: float | None
    ours: float | None
    interval: tuple[float, float] | None
    note: str
    tone: str
    said: str
    """The row in words, for those who do not see it."""


def forest(marks: Sequence[Mark], heads: tuple[str, str, str], band: float | None, key: str) -> str:
    """A table whose middle column draws each row; `band`: half the width of a tie, where there are ties."""
    reach = [abs(value) for mark in marks for value in (mark.paper, mark.ours) if value is not None]
    limit = max([*reach, (band or 0.0) * 1.5, 1e-9]) * HEADROOM
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    body = [
        f'<tr><th scope="row">{mark.name}</th><td>{_strip(mark, limit, band)}</td><td class="note">{escape(mark.note)}'
        "</td></tr>"
        for mark in marks
    ]
    axis = f'<tr class="axis"><td></td><td>{_axis(limit)}</td><td></td></tr>'
    return (
        f'<table class="forest"><caption>{escape(key)}</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(body)}{axis}</tbody></table>"
    )


def _percent(value: float, limit: float) -> str:
    return f"{50 + 50 * value / limit:.2f}%"


def _strip(mark: Mark, limit: float, band: float | None) -> str:
    parts = []
    if band is not None:
        width = f"{100 * band / limit:.2f}%"
        parts.append(f'<rect class="band" x="{_percent(-band, limit)}" width="{width}" y="0" height="100%"/>')
    parts.append('<line class="zero" x1="50%" x2="50%" y1="0" y2="100%"/>')
    if mark.interval is not None:
        low, high = (max(-limit, min(limit, end)) for end in mark.interval)
        parts.append(
            f'<line class="reach" x1="{_percent(low, limit)}" x2="{_percent(high, limit)}" y1="50%" y2="50%"/>'
        )
        cut = ((mark.interval[0] < -limit, 0, 5), (mark.interval[1] > limit, 100, -5))
        parts += [
            f'<svg x="{x}%" y="50%" overflow="visible"><path class="cut" d="M{way} -4 L0 0 L{way} 4"/></svg>'
            for is_cut, x, way in cut
            if is_cut
        ]
    if mark.paper is not None:
        square = '<rect class="paper" x="-5" y="-5" width="10" height="10"/>'
        parts.append(f'<svg x="{_percent(mark.paper, limit)}" y="50%" overflow="visible">{square}</svg>')
    if mark.ours is not None:
        parts.append(f'<circle class="ours" cx="{_percent(mark.ours, limit)}" cy="50%" r="4.5"/>')
    return f'<svg class="strip-plot {mark.tone}" role="img" aria-label="{escape(mark.said)}">{"".join(parts)}</svg>'


def _axis(limit: float) -> str:
    room = 0.9 * limit
    steps = (10.0**power * n for power in range(-6, 12) for n in (1, 2, 5))
    step = next(step for step in steps if int(room / step) <= TICKS)
    most = int(room / step)
    digits = max(0, -math.floor(math.log10(step)))
    texts = "".join(
        f'<text x="{_percent(step * n, limit)}" y="13"{SPARE * (most > 1 and n % 2)}>{_signed(step * n, digits)}</text>'
        for n in range(-most, most + 1)
    )
    return f'<svg class="ticks" aria-hidden="true">{texts}</svg>'


def _signed(number: float, digits: int) -> str:
    return f"{number:+.{digits}f}".replace("-", "−") if number else "0"


def bump(rows: Sequence[tuple[str, float, float]], lower_is_better: bool) -> str:
    """Rows (name, ours, published) in the paper's order on the left and in ours on the right, joined by lines."""
    sign = 1 if lower_is_better else -1
    theirs = sorted(range(len(rows)), key=lambda row: (sign * rows[row][2], row))
    ours = sorted(range(len(rows)), key=lambda row: (sign * rows[row][1], theirs.index(row)))
    left = "".join(f"<li><b>{n}</b> <span>{escape(rows[r][0])}</span></li>" for n, r in enumerate(theirs, 1))
    right = "".join(
        f"<li><b>{theirs.index(r) + 1}</b> <span>{escape(rows[r][0])}</span> {rows[r][1]:.2f}</li>" for r in ours
    )
    lines = []
    for row in range(len(rows)):
        start, end = theirs.index(row), ours.index(row)
        ends = [100 * (place + 0.5) / len(rows) for place in (start, end)]
        move = "same" if start == end else "rise" if end < start else "fall"
        lines.append(f'<line class="{move}" x1="0" x2="100%" y1="{ends[0]:.2f}%" y2="{ends[1]:.2f}%"/>')
    moved = sum(theirs.index(row) != ours.index(row) for row in range(len(rows)))
    said = f"{moved} of {len(rows)} rows stand in another place than in the paper"
    tall = max(-(-len(name) // 20) for name, _, _ in rows)
    return (
        f'<figure class="bump" style="--rows:{len(rows)};--lines:{min(tall, 4)}"><div class="orders">'
        f'<div><h4>The paper</h4><ol class="order">{left}</ol></div>'
        f'<svg role="img" aria-label="{said}">{"".join(lines)}</svg>'
        f'<div><h4>Ours</h4><ol class="order">{right}</ol></div></div>'
        f"<figcaption>Best first. {said}. The number is the row's place in the paper.</figcaption></figure>"
    )
