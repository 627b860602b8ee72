"""What all figures share: the canvas, colours that the colour-blind can tell apart, and files written aside."""

import base64
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

OURS, PAPER, GREY = "#1f5fa8", "#c0482d", "#8a8a8a"
COLOURS = ("#1f5fa8", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8a8a8a")
"""Okabe and Ito's, ours first."""
MANY = 500
"""Marks above which a figure keeps them as pixels: ten thousand circles are a slow picture."""
UNDATED: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}
"""No date in a file: equal figures are equal bytes."""


def canvas(title: str = "", *, size: tuple[float, float] = (7.0, 4.4)) -> tuple[Figure, Axes]:
    """A figure with one pair of axes."""
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    axes.set_title(literal(title), fontsize=10)
    return figure, axes


def literal(text: str) -> str:
    """Text in which no dollar sign begins a formula."""
    return text.replace("$", r"\$")


def name_ticks(axes: Axes, names: Sequence[str]) -> None:
    """Names under the places 0..n-1: on as many lines as they have, or slanted where they would run together."""
    widest = max((len(line) for name in names for line in name.split("\n")), default=0)
    shown = [literal(name) for name in names]
    if widest * len(names) <= 90:
        axes.set_xticks(range(len(names)), shown)
        return
    joined = [name.replace("\n", " ") for name in shown]
    axes.set_xticks(range(len(names)), joined, rotation=35, ha="right", rotation_mode="anchor", fontsize=7)


def below(figure: Figure, handles: Sequence[Any], columns: int = 3) -> None:
    """A legend under the axes."""
    if handles:
        figure.legend(handles=list(handles), loc="outside lower center", ncols=columns, fontsize=8, frameon=False)


def encoded(figure: Figure, form: str) -> bytes:
    """The figure as a file's content: png, pdf or svg; letters are outlines, so no font is looked for."""
    FigureCanvasAgg(figure)
    text = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "cse", "svg.fonttype": "path"}):
        figure.savefig(text, format=form, dpi=150, metadata=UNDATED.get(form, {}))
    return text.getvalue()


def data_uri(figure: Figure) -> str:
    """The figure as the address of an image that needs no file: a page may hold many without clashing names."""
    return "data:image/svg+xml;base64," + base64.b64encode(encoded(figure, "svg")).decode()


def save(figure: Figure, to: Path) -> Path:
    """Draws aside and renames, so that no reader ever finds half a picture; the suffix names the format (png)."""
    to.parent.mkdir(parents=True, exist_ok=True)
    aside = to.with_name(f".{to.name}.{os.getpid()}.part")
    try:
        aside.write_bytes(encoded(figure, to.suffix.lstrip(".") or "png"))
        aside.replace(to)
    finally:
        aside.unlink(missing_ok=True)
    return to
