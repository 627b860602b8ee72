"""Canvas, colours, marker shapes, texts and files of all figures; shapes differ too, for readers without colour."""

import base64
import io
import re
import statistics
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from cse_train.files import replace_file

OUR_COLOUR, PAPER_COLOUR, GREY, INK = "#0072b2", "#d55e00", "#767676", "#1b1f24"
SERIES_COLOURS = (OUR_COLOUR, PAPER_COLOUR, "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", GREY)
"""Okabe and Ito's palette, safe for colour-blind readers; measured values have the first colour."""
MARKER_SHAPES = ("o", "s", "^", "D", "v", "P", "X", "h")
"""Marker shapes, one for each colour, so that readers without colour can distinguish series."""
MANY_POINTS = 500
"""Number of marks above which a figure rasterises them, since thousands of vector circles draw slowly."""
LOG_RATIO = 20.0
"""Smallest ratio of the largest to the smallest number on a log axis."""
UNDATED: dict[str, dict[str, None]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}
"""Metadata that removes the date from a file, so that equal figures are equal bytes."""
TITLE_CHARACTERS = 88
"""Characters per line of a title over the whole width."""
SETS = {
    "sts_dev": "STS-B dev",
    "sts_test": "STS-B test",
    "generated_dev": "generated dev set",
    "sickr": "SICK-R",
    "sts": "mean of seven STS test sets",
    **{f"sts{year}": f"STS{year}" for year in range(12, 17)},
}
"""Column -> name of its set, for sets whose scores are Spearman's correlations x 100."""
SPEARMAN = "Spearman x 100"
FRACTION = re.compile(r"(?<==)-?\d*\.\d+(?:e-?\d+)?(?!\S)")
"""Pattern of a number with a decimal point that is the value of an axis."""


def canvas(
    title: str = "", *, down: int = 1, across: int = 1, size: tuple[float, float] = (7.0, 4.4), **shared: Any
) -> tuple[Figure, list[Axes]]:
    """Returns a figure and its panels, row by row; `shared` holds keyword arguments of `subplots`."""
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(down, across, squeeze=False, **shared)
    if title:
        figure.suptitle(wrap_words(title, TITLE_CHARACTERS), fontsize=10)
    for panel in panels.flat:
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(labelsize=8)
        panel.set_axisbelow(True)
    return figure, list(panels.flat)


def log_scaled(values: list[float]) -> bool:
    """Returns whether numbers belong on a log axis: they reach far, and most of them lie in the lowest quarter."""
    if not values or min(values) <= 0 or max(values) / min(values) < LOG_RATIO:
        return False
    return statistics.median(values) < (min(values) + max(values)) / 4


def thin_ticks(figure: Figure) -> None:
    """Hides every tick label that would overlap the label before it."""
    figure.draw_without_rendering()  # labels have no text and no place before
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [tick for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()] if tick.label1.get_text()]
            last = None
            for tick in sorted(ticks, key=lambda tick: float(tick.get_loc())):
                if not low <= tick.get_loc() <= high or not tick.label1.get_visible():
                    continue
                box = tick.label1.get_window_extent().padded(1.0)
                if last is not None and box.overlaps(last):
                    tick.label1.set_visible(False)
                else:
                    last = box


def label_ends(figure: Figure, axes: Axes, ends: list[tuple[float, str, str]]) -> None:
    """Writes a text next to the axes for each (height, text, colour), with a line to its height, without overlaps."""
    figure.draw_without_rendering()
    inches = axes.get_window_extent().height / figure.dpi
    low, high = axes.get_ylim()
    size = 7.5
    labels = sorted(((y - low) / (high - low), text, colour) for y, text, colour in ends)
    heights = [1.3 * size * (text.count("\n") + 1) / 72 / inches for _, text, _ in labels]
    places: list[float] = []
    # Upwards, each text clear of the one below; then downwards from the top, where texts have left the axes.
    for (y, _, _), height in zip(labels, heights, strict=True):
        below = places[-1] + (heights[len(places) - 1] + height) / 2 if places else y
        places.append(max(y, below))
    top = 1.0
    for i in reversed(range(len(places))):
        places[i] = min(places[i], top - heights[i] / 2)
        top = places[i] - heights[i] / 2
    for (y, text, colour), place in zip(labels, places, strict=True):
        axes.annotate(
            text, (1.0, y), (1.04, place), xycoords="axes fraction", textcoords="axes fraction", va="center",
            fontsize=size, color=INK, annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "lw": 1.0, "shrinkA": 1, "shrinkB": 0, "relpos": (0, 0.5)},
        )  # fmt: skip


def encode_figure(figure: Figure, form: str, *, clear: bool = False) -> bytes:
    """Returns a figure as a file's content: png, pdf or svg. Letters are outlines, so that no font is needed.

    `clear` leaves the background transparent.
    """
    FigureCanvasAgg(figure)
    text = io.BytesIO()
    # A fixed salt: IDs in SVG are random otherwise, and equal figures would be different bytes.
    with matplotlib.rc_context({"svg.hashsalt": "cse", "svg.fonttype": "path"}):
        figure.savefig(text, format=form, dpi=150, metadata=UNDATED.get(form, {}), transparent=clear)
    return text.getvalue()


def data_uri(figure: Figure) -> str:
    """Returns a figure as a data URI of an SVG image; a page may hold many without clashing element IDs."""
    return "data:image/svg+xml;base64," + base64.b64encode(encode_figure(figure, "svg", clear=True)).decode()


def save(figure: Figure, path: Path) -> Path:
    """Writes a figure to a temporary file and renames it, so that no reader finds half; the suffix is the format."""
    replace_file(path, lambda temporary: temporary.write_bytes(encode_figure(figure, path.suffix.lstrip(".") or "png")))
    return path


def literal(text: str) -> str:
    """Returns a text in which no dollar sign begins a formula."""
    return text.replace("$", r"\$")


def wrap_words(text: str, width: int) -> str:
    """Returns a text wrapped at whole words, with no dollar sign that begins a formula; `x 100` is one word."""
    text = text.replace(" x 100", "\u00a0x\u00a0100")
    return literal("\n".join(textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)))


def metric_name(column: str, metric: str = "") -> str:
    """Returns the name of a column's numbers with their unit: `STS-B dev, Spearman x 100`.

    `metric` is a table's text on all columns, in parts with semicolons; a part `COLUMN is ...` is for that column
    alone.
    """
    name, parts = SETS.get(column, column), metric.split("; ")
    alone = [part.removeprefix(f"{column} is ") for part in parts if part.startswith(f"{column} is ")]
    unit = (alone or parts)[0] or (SPEARMAN if column in SETS else "")
    return unit if unit.startswith(name) else ", ".join(part for part in (name, unit) if part)


def brief(label: str) -> str:
    """Returns a label of `axis=value` words with its numbers in four digits; 0.99999 does not become 1."""

    def rounded(match: re.Match[str]) -> str:
        short = f"{float(match[0]):.4g}"
        return match[0] if float(short).is_integer() else short

    return FRACTION.sub(rounded, label)


def distinct(labels: Sequence[str]) -> list[str]:
    """Returns labels of `axis=value` words without the words that all of them share, numbers in four digits."""
    words = [brief(label).split(" ") for label in labels]
    shared = set.intersection(*map(set, words)) if len(words) > 1 else set()
    return [" ".join(word for word in label if word not in shared) or "all" for label in words]
