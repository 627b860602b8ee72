"""Figures of runs over training examples: learning curves, and the best score by examples spent."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from analysis.figures.canvas import (
    GREY,
    MANY_POINTS,
    MARKER_SHAPES,
    OUR_COLOUR,
    PAPER_COLOUR,
    SERIES_COLOURS,
    canvas,
    label_ends,
    thin_ticks,
)
from analysis.figures.words import distinct, metric_name, wrap_words
from analysis.study.budget import SpentBudget
from analysis.study.learning_curves import Band

RUN_NAME_CHARACTERS = 38
"""Characters per line of a curve's name."""
FEW_POINTS = 4
"""Number of curves up to which their bands are drawn clearly; bands of more are faint."""
MARKED_POINTS = 6
"""Number of marker shapes along a curve."""


def learning_plot(bands: Sequence[Band], metric: str) -> Figure:
    """Draws the mean over seeds by training examples, one line per cell, with a band of one standard deviation.

    Each line has a marker shape of its own, and its name at its end.
    """
    names = [
        wrap_words(f"{name} (n\u00a0{band.seeds})", RUN_NAME_CHARACTERS)
        for name, band in zip(distinct([band.label for band in bands]), bands, strict=True)
    ]
    lines = sum(name.count("\n") + 1 for name in names)
    figure, (axes,) = canvas(size=(7.0, max(4.0, 1.0 + 0.145 * lines)))
    ends = []
    for number, (name, band) in enumerate(zip(names, bands, strict=True)):
        colour, shape = SERIES_COLOURS[number % len(SERIES_COLOURS)], MARKER_SHAPES[number % len(MARKER_SHAPES)]
        low = [mean - sd for mean, sd in zip(band.means, band.sds, strict=True)]
        high = [mean + sd for mean, sd in zip(band.means, band.sds, strict=True)]
        axes.fill_between(
            band.examples, low, high, color=colour, alpha=0.12 if len(bands) <= FEW_POINTS else 0.05, lw=0
        )
        # Backwards, so that each line has a marker at its last point.
        every = (len(band.means) - 1, -max(1, len(band.means) // MARKED_POINTS))
        marked = list(range(*every, -1 if every[1] < 0 else 1)) if len(band.means) > 1 else [0]
        axes.plot(band.examples, band.means, color=colour, lw=1.5, marker=shape, ms=5, markevery=sorted(marked))
        ends.append((band.means[-1], name, colour))
    _count_examples(figure, "training examples")
    axes.set_ylabel(wrap_words(metric_name(metric), 40), fontsize=8)
    label_ends(figure, axes, ends)
    thin_ticks(figure)
    return figure


def budget_plot(budget: SpentBudget, metric: str) -> Figure:
    """Draws the best cell so far over the examples spent, every cell as a ring, and a random order's expected best."""
    figure, (axes,) = canvas(size=(7.0, 3.8))
    spent = list(budget.spent)
    axes.scatter(
        spent,
        budget.scores,
        s=18,
        facecolors="none",
        edgecolors=GREY,
        linewidths=0.9,
        rasterized=len(spent) > MANY_POINTS,
    )
    axes.step(spent, budget.best, where="post", color=OUR_COLOUR, lw=1.8)
    axes.plot(spent, budget.expected, color=PAPER_COLOUR, lw=1.4, linestyle="--")
    _count_examples(figure, "training examples spent, all seeds")
    axes.set_ylabel(wrap_words(f"{metric_name(metric)}, mean over seeds", 40), fontsize=8)
    ends = [
        (budget.best[-1], "best so far", OUR_COLOUR),
        (budget.expected[-1], "dashed: expected best\nof a random order", PAPER_COLOUR),
        (budget.scores[-1], "○ one cell", GREY),
    ]
    label_ends(figure, axes, ends)
    thin_ticks(figure)
    return figure


def _count_examples(figure: Figure, label: str) -> None:
    (axes,) = figure.axes
    axes.set_xlabel(label, fontsize=8)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.xaxis.set_major_locator(MaxNLocator(6))
