"""Figures of embeddings: the alignment-uniformity plane, and cosines by human rating."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures.canvas import INK, MANY_POINTS, MARKER_SHAPES, SERIES_COLOURS, canvas, thin_ticks
from analysis.figures.words import distinct, metric_name, wrap_words
from analysis.study.alignment import Plane
from analysis.study.rating_groups import EDGES, RATING_GROUPS, RatingHistogram

RUNS_NAMED = 8
"""Number of cells above which the plane names none."""
EMBEDDING_NAME_CHARACTERS = 34
"""Characters per line of a cell's name."""


def plane_plot(plane: Plane, metric: str) -> Figure:
    """Draws a mark per run, coloured by its score. Up to RUNS_NAMED cells have a shape each, named in a list below."""
    cells = list(dict.fromkeys(point.cell for point in plane.points))
    figure, (axes,) = canvas(size=(7.0, 4.4))
    scores = [point.score for point in plane.points]
    few = len(cells) <= RUNS_NAMED
    low, high = min(scores), max(scores)
    for number, cell in enumerate(cells if few else [""]):
        points = [point for point in plane.points if not few or point.cell == cell]
        dots = axes.scatter(
            [p.uniformity for p in points], [p.alignment for p in points], c=[p.score for p in points], s=40,
            marker=MARKER_SHAPES[number], cmap="viridis", vmin=low, vmax=high if high > low else low + 1,
            edgecolors=INK, linewidths=0.5, rasterized=len(points) > MANY_POINTS,
        )  # fmt: skip
    bar = figure.colorbar(dots, ax=axes)
    bar.set_label(wrap_words(f"best {metric_name(metric)}", 40), fontsize=8)
    axes.set_xlabel("uniformity (lower: more even)", fontsize=8)
    axes.set_ylabel("alignment (lower: closer)", fontsize=8)
    if few:
        _list_of_shapes(figure, axes, cells)
    thin_ticks(figure)
    return figure


def _list_of_shapes(figure: Figure, axes: Axes, cells: Sequence[str]) -> None:
    """Writes the names of the shapes in two columns under the axes."""
    names = [wrap_words(name, EMBEDDING_NAME_CHARACTERS) for name in distinct(cells)]
    marks = [
        axes.scatter([], [], marker=MARKER_SHAPES[number], s=30, facecolors="none", edgecolors=INK, label=name)
        for number, name in enumerate(names)
    ]
    figure.legend(handles=marks, loc="outside lower center", ncols=2, fontsize=7.5, frameon=False)


def histogram_plot(histograms: Sequence[RatingHistogram]) -> Figure:
    """Draws a column per cell and a row per rating group; the vertical line is the group's mean cosine."""
    figure, flat = canvas(
        down=len(RATING_GROUPS), across=len(histograms), size=(7.0, 5.2), sharex=True, sharey="col"
    )  # fmt: skip
    panels = np.array(flat).reshape(len(RATING_GROUPS), len(histograms))
    widths, centres = np.diff(EDGES), (EDGES[1:] + EDGES[:-1]) / 2
    names = distinct([histogram.label for histogram in histograms])
    for column, histogram in enumerate(histograms):
        panels[0, column].set_title(
            wrap_words(f"{names[column]} (n\u00a0{histogram.seeds})", 76 // len(histograms)), fontsize=8
        )
        for group, name in enumerate(RATING_GROUPS):
            panel, mean = panels[group, column], histogram.means[group]
            panel.bar(centres, histogram.counts[group], width=widths, color=SERIES_COLOURS[0])
            if mean is not None:
                panel.axvline(mean, color=INK, lw=1.2)
            panel.set_yticks([])
            panels[group, 0].set_ylabel(f"rated\n{name}", fontsize=8, rotation=0, ha="right", va="center")
        panels[-1, column].set_xlabel("cosine", fontsize=8)
    lowest = min((EDGES[int(np.argmax(h.counts.sum(axis=0) > 0))] for h in histograms), default=-1.0)
    panels[0, 0].set_xlim(lowest, 1.0)
    thin_ticks(figure)
    return figure
