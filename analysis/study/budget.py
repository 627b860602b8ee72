"""What the training bought: the best score so far over the examples spent, beside what random picking would give."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.study.study import Study


@dataclass(frozen=True)
class Budget:
    """Cells in the order in which their last seed ended."""

    spent: tuple[int, ...]
    """Training examples of all runs up to and with this cell's last."""
    scores: tuple[float, ...]
    """The cell's mean best dev score over its seeds."""
    expected: tuple[float, ...]
    """Expected best of as many cells drawn at random without putting back."""

    @property
    def best(self) -> tuple[float, ...]:
        """Best so far."""
        return tuple(np.maximum.accumulate(self.scores).tolist()) if self.scores else ()


def budget(study: Study) -> Budget:
    """The study's finished cells by completion; ties by name."""
    ends = {cell: max(run.updated for _, run in runs) for cell, runs in study.cells.items()}
    order = sorted(ends, key=lambda cell: (ends[cell], cell))
    costs = [sum(run.examples or 0 for _, run in study.cells[cell]) for cell in order]
    scores = [float(np.mean([run.best for _, run in study.cells[cell]])) for cell in order]
    return Budget(tuple(np.cumsum(costs).tolist()), tuple(scores), expected_best(scores))


def expected_best(scores: Sequence[float]) -> tuple[float, ...]:
    """For k = 1..n: the mean over all sets of k of these scores of the set's maximum.

    The i-th smallest is the maximum of C(i - 1, k - 1) of the C(n, k) sets.
    """
    ordered, count = np.sort(np.asarray(scores, dtype=float)), len(scores)
    logs = np.array([math.lgamma(i + 1) for i in range(count + 1)])
    places = np.arange(count)
    expected = []
    for k in range(1, count + 1):
        able = places[k - 1 :]
        chosen = logs[able] - logs[k - 1] - logs[able - k + 1]
        whole = logs[count] - logs[k] - logs[count - k]
        expected.append(float(np.exp(chosen - whole) @ ordered[k - 1 :]))
    return tuple(expected)
