"""Best score so far over the training examples spent, next to what random picking would give."""

from dataclasses import dataclass

import numpy as np

from analysis.statistics.selection import expect_best
from analysis.study.study import Study


@dataclass(frozen=True)
class SpentBudget:
    """Cells of a study in the order in which their last seed ended, with what they cost and scored."""

    spent: tuple[int, ...]
    """Training examples of all runs up to each cell's last run."""
    scores: tuple[float, ...]
    """Mean best dev score of each cell over its seeds."""
    expected: tuple[float, ...]
    """Expected best of as many cells drawn at random without replacement."""

    @property
    def best(self) -> tuple[float, ...]:
        """Best mean score so far, after each cell."""
        return tuple(np.maximum.accumulate(self.scores).tolist()) if self.scores else ()


def budget(study: Study) -> SpentBudget:
    """Returns the budget of a study's finished cells by completion; ties are ordered by name."""
    ends = {cell: max(run.updated for _, run in runs) for cell, runs in study.cells.items()}
    order = sorted(ends, key=lambda cell: (ends[cell], cell))
    costs = [sum(run.examples or 0 for _, run in study.cells[cell]) for cell in order]
    scores = [float(np.mean([run.best for _, run in study.cells[cell]])) for cell in order]
    expected = tuple(expect_best(scores, draws) for draws in range(1, len(scores) + 1))
    return SpentBudget(tuple(np.cumsum(costs).tolist()), tuple(scores), expected)
