"""Figures of the runs over training examples: learning curves, and what the spent examples bought."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from analysis.figures.canvas import COLOURS, GREY, MANY, OURS, below, canvas, literal
from analysis.study.budget import Budget
from analysis.study.learning_curves import Band
from analysis.tables.labels import shortened


def learning_plot(bands: Sequence[Band], metric: str) -> Figure:
    """Mean over seeds by training examples, one line per cell, with a band of one standard deviation."""
    figure, axes = canvas()
    lines = []
    for number, band in enumerate(bands):
        colour, low = COLOURS[number % len(COLOURS)], [m - s for m, s in zip(band.means, band.sds, strict=True)]
        high = [mean + sd for mean, sd in zip(band.means, band.sds, strict=True)]
        axes.fill_between(band.examples, low, high, color=colour, alpha=0.13, lw=0)
        name = literal(f"{shortened(band.label)} (n {band.seeds})")
        lines += axes.plot(band.examples, band.means, color=colour, lw=1.5, label=name)
    axes.set_xlabel("training examples")
    axes.set_ylabel(literal(metric))
    widest = max((len(band.label) for band in bands), default=0)
    below(figure, lines, columns=1 if widest > 40 else 2 if widest > 22 else 3)
    return figure


def budget_plot(budget: Budget, metric: str) -> Figure:
    """Best cell so far over the examples spent, every cell as a dot, and the expected best of a random order."""
    figure, axes = canvas()
    spent = list(budget.spent)
    dots = axes.scatter(
        spent, budget.scores, color=GREY, s=12, alpha=0.6, label="one cell", rasterized=len(spent) > MANY
    )
    steps = axes.step(spent, budget.best, where="post", color=OURS, lw=1.8, label="best so far")
    expected = axes.plot(
        spent, budget.expected, color=COLOURS[1], lw=1.2, linestyle="--", label="expected best of a random order"
    )
    axes.set_xlabel("training examples spent, all seeds")
    axes.set_ylabel(literal(f"best {metric}, mean over seeds"))
    below(figure, [*steps, *expected, dots])
    return figure
