"""Where a figure's texts lie, to see that none is cut off and none lies on another."""

import itertools
from collections.abc import Iterator

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

SLACK = 1.5
"""Pixels that two boxes may share: boxes are a little larger than their letters."""


def texts(figure: Figure) -> list[Text]:
    """Every text that is drawn."""
    every = [*figure.texts, *([figure._suptitle] if getattr(figure, "_suptitle", None) else [])]
    for legend in figure.legends:
        every += legend.get_texts()
    for axes in figure.axes:
        if axes.get_visible():
            every += [*axes.texts, axes.title, axes._left_title, axes._right_title]  # type: ignore[attr-defined]
            every += _of_axis(axes)
    distinct = {id(text): text for text in every}.values()
    return [text for text in distinct if text.get_visible() and text.get_text().strip()]


def _of_axis(axes: Axes) -> Iterator[Text]:
    for axis in (axes.xaxis, axes.yaxis):
        low, high = sorted(axis.get_view_interval())
        yield axis.label
        yield axis.get_offset_text()
        for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
            if low <= tick.get_loc() <= high:
                yield from (label for label in (tick.label1, tick.label2) if label.get_visible())


def faults(figure: Figure) -> list[str]:
    """One line for each text that leaves the canvas, and for each pair of texts that meet."""
    FigureCanvasAgg(figure).draw()
    whole = figure.bbox
    # Of an annotation, its words without its line.
    boxes = [(text.get_text(), Text.get_window_extent(text)) for text in texts(figure)]
    assert boxes
    lines = [
        f"outside: {name!r} {box.extents.round()} of {whole.extents.round()}"
        for name, box in boxes
        if box.x0 < -SLACK or box.y0 < -SLACK or box.x1 > whole.x1 + SLACK or box.y1 > whole.y1 + SLACK
    ]
    for (one, left), (other, right) in itertools.combinations(boxes, 2):
        across, down = min(left.x1, right.x1) - max(left.x0, right.x0), min(left.y1, right.y1) - max(left.y0, right.y0)
        if across > SLACK and down > SLACK:
            lines.append(f"on each other: {one!r} and {other!r} by {across:.0f} x {down:.0f}")
    return lines
