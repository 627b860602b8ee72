"""Figures of the embeddings themselves: the alignment-uniformity plane, and cosines by human rating."""

import statistics
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from analysis.figures.canvas import COLOURS, MANY, canvas, literal
from analysis.study.alignment import Plane
from analysis.study.rating_groups import EDGES, GROUPS, RatingHistogram
from analysis.tables.labels import shortened

NAMED = 12
"""Cells above which the plane names none."""


def plane_plot(plane: Plane, metric: str) -> Figure:
    """A dot per run, coloured by its score; the mean of each cell is named while there are few."""
    figure, axes = canvas()
    xs, ys = [point.uniformity for point in plane.points], [point.alignment for point in plane.points]
    scores = [point.score for point in plane.points]
    dots = axes.scatter(xs, ys, c=scores, cmap="viridis", s=22, alpha=0.85, lw=0, rasterized=len(xs) > MANY)
    figure.colorbar(dots, ax=axes, label=literal(f"best {metric}"))
    cells = list(dict.fromkeys(point.cell for point in plane.points))
    for cell in cells if len(cells) <= NAMED else []:
        points = [point for point in plane.points if point.cell == cell]
        at = (statistics.fmean(p.uniformity for p in points), statistics.fmean(p.alignment for p in points))
        right = at[0] > (min(xs) + max(xs)) / 2
        named = axes.annotate(
            literal(shortened(cell)), at, (-5 if right else 5, 5), textcoords="offset points", fontsize=7
        )
        named.set(ha="right" if right else "left", in_layout=False)
    axes.set_xlabel("uniformity (lower: more even)")
    axes.set_ylabel("alignment (lower: closer)")
    return figure


def histogram_plot(histograms: Sequence[RatingHistogram]) -> Figure:
    """A column per cell, a row per rating group; the vertical line is the group's mean cosine."""
    figure = Figure(figsize=(7.0, 5.2), layout="constrained")
    panels = figure.subplots(len(GROUPS), len(histograms), sharex=True, sharey="col", squeeze=False)
    widths, centres = np.diff(EDGES), (EDGES[1:] + EDGES[:-1]) / 2
    for column, histogram in enumerate(histograms):
        panels[0, column].set_title(literal(f"{shortened(histogram.label)} (n {histogram.seeds})"), fontsize=8)
        for group, name in enumerate(GROUPS):
            panel, mean = panels[group, column], histogram.means[group]
            panel.bar(centres, histogram.counts[group], width=widths, color=COLOURS[group % 5])
            if mean is not None:
                panel.axvline(mean, color="black", lw=1.0)
            panel.set_yticks([])
            panel.tick_params(labelsize=7)
            panels[group, 0].set_ylabel(f"rated\n{name}", fontsize=8, rotation=0, ha="right", va="center")
        panels[-1, column].set_xlabel("cosine", fontsize=8)
    lowest = min((EDGES[int(np.argmax(h.counts.sum(axis=0) > 0))] for h in histograms), default=-1.0)
    panels[0, 0].set_xlim(lowest, 1.0)
    return figure
