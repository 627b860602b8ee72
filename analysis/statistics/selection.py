"""What the best of many is worth: its expected value under fewer draws, and how much of it is luck."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from analysis.statistics.basics import Spread, mean_and_sd, pool_spreads

DRAWN_CELLS = (1, 5, 10)
"""Numbers of draws at which the expected best is shown, beside all."""


def expect_best(values: Sequence[float], draws: int) -> float:
    """Expected maximum of `draws` values drawn at random without replacement from the given ones.

    The mean over all subsets of that size, hence unbiased for independent values: the i-th smallest of N is the largest
    of C(i - 1, n - 1) of the C(N, n) subsets. Source: Tang et al., "Showing Your Work Doesn't Always Work", ACL 2020,
    in place of the plug-in estimate with replacement of Dodge et al., "Show Your Work", EMNLP 2019, which is biased.
    """
    count = len(values)
    assert 1 <= draws <= count, (draws, count)
    places = np.arange(count, draws, -1)
    # From the largest value downwards, each share from the one before: binomials of thousands fit no float.
    shares = draws / count * np.cumprod(np.append(1.0, (places - draws) / (places - 1)))
    return math.fsum(shares * sorted(values, reverse=True)[: len(shares)])


def shrunken(cells: Sequence[Sequence[float]], picked: int) -> float | None:
    """The picked cell's mean, shrunk as far as seeds alone would spread the cells' means.

    One-way random effects: a cell's true value varies with variance t between cells, a run with s around it (pooled),
    so its mean of n runs keeps t / (t + s / n) of its distance from the mean of all. t is the analysis of variance's
    estimate for unequal n (Searle, Casella and McCulloch, Variance Components, 1992), at least 0. None where no cell
    has two runs, or there is one cell.
    """
    variances = _variances(cells)
    if variances is None:
        return None
    between, within = variances
    means, counts = np.array([fmean(values) for values in cells]), np.array([len(values) for values in cells])
    noise = within / counts
    if between + noise.max() == 0:
        return float(means[picked])
    centre = float(np.average(means, weights=1 / (between + noise) if within else None))
    return centre + between / (between + float(noise[picked])) * (float(means[picked]) - centre)


@dataclass(frozen=True)
class Selection:
    """The pick among N cells, and what speaks against taking its value at face value."""

    candidates: int
    value: float
    """Mean over the picked cell's seeds."""
    expected_best: Mapping[int, float]
    """Draws -> expected best mean of so many random cells; at N it is the best of all."""
    best_run: float
    """The picked cell's highest run."""
    other_seeds: float | None
    """Mean of the picked cell's other runs, None for a single one."""
    shrunken: float | None
    """The value shrunk towards the mean of all cells as far as seeds explain the spread; None without repeats."""

    @property
    def optimism_of_run(self) -> float | None:
        """What the highest run stands above its cell's other seeds."""
        return None if self.other_seeds is None else self.best_run - self.other_seeds

    @property
    def optimism(self) -> float | None:
        """What the mean stands above its shrunken value."""
        return None if self.shrunken is None else self.value - self.shrunken


def select(cells: Sequence[Sequence[float]], picked: int) -> Selection:
    """The selection of cell `picked` among cells of one value per seed each; needs at least one value in every cell."""
    assert cells and all(cells) and 0 <= picked < len(cells)
    means, scores = [fmean(values) for values in cells], sorted(cells[picked])
    draws = sorted({*(n for n in DRAWN_CELLS if n <= len(cells)), len(cells)})
    return Selection(
        candidates=len(cells),
        value=means[picked],
        expected_best={n: expect_best(means, n) for n in draws},
        best_run=scores[-1],
        other_seeds=fmean(scores[:-1]) if len(scores) > 1 else None,
        shrunken=shrunken(cells, picked),
    )


def _variances(cells: Sequence[Sequence[float]]) -> tuple[float, float] | None:
    """Variance between cells and within them."""
    sds = [(mean_and_sd(values)[1], len(values) - 1) for values in cells]
    spread = pool_spreads(Spread(sd, freedom) for sd, freedom in sds if sd is not None)
    if spread is None or len(cells) < 2:
        return None
    counts = np.array([len(values) for values in cells])
    means = np.array([fmean(values) for values in cells])
    grand = float(np.average(means, weights=counts))
    between = float((counts * (means - grand) ** 2).sum()) / (len(cells) - 1)
    typical = (counts.sum() - (counts**2).sum() / counts.sum()) / (len(cells) - 1)
    return max(0.0, (between - spread.sd**2) / float(typical)), spread.sd**2
