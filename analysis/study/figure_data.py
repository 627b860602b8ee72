"""Content of a report's figures: learning curves, alignment and uniformity, cosines by rating, the budget.

Learning curves and the budget are in dev scores. Alignment and uniformity say how close positives lie and how evenly
the sphere is covered, lower is better. A good encoder's histograms of cosines move to the right from group to group.
"""

import contextlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.ledger import ScoreRow
from analysis.ledger.rows import read_metric
from analysis.statistics.basics import mean_and_sd
from analysis.statistics.selection import expect_best
from analysis.study.study import Study
from analysis.tables.pair_cosines import read_cosines
from analysis.tables.results import DEV
from analysis.tables.spec import TableError

CURVES_SHOWN = 8
"""Largest number of cells in one figure, since more lines cannot be distinguished."""


@dataclass(frozen=True)
class Band:
    """Curve of one cell: mean and sd over its seeds, at each number of examples that all seeds reached."""

    label: str
    seeds: int
    examples: tuple[int, ...]
    means: tuple[float, ...]
    sds: tuple[float, ...]
    """Standard deviation over seeds at each point; 0 for a single seed."""


def learning_bands(study: Study, limit: int = CURVES_SHOWN) -> list[Band]:
    """Returns bands of the dev metric, cells by their rank: all of them, or the best and, last, the worst."""
    ranked = study.ranked if len(study.ranked) <= limit else [*study.ranked[: limit - 1], study.ranked[-1]]
    bands = [
        band(
            cell,
            [read_metric(study.curves.get(run.signature, ()), run.config.get(DEV)) for _, run in study.cells[cell]],
        )
        for cell in ranked
    ]
    return [b for b in bands if b.examples]


def band(label: str, curves: Sequence[Mapping[int, float]]) -> Band:
    """Returns the band of one cell's curves (examples -> value, one mapping per seed)."""
    points: dict[int, list[float]] = defaultdict(list)
    for curve in curves:
        for examples, value in curve.items():
            points[examples].append(value)
    whole = {examples: mean_and_sd(values) for examples, values in sorted(points.items()) if len(values) == len(curves)}
    means = tuple(mean for mean, _ in whole.values() if mean is not None)
    return Band(label, len(curves), tuple(whole), means, tuple(sd or 0.0 for _, sd in whole.values()))


ALIGNMENT, UNIFORMITY = "alignment", "uniformity"


@dataclass(frozen=True)
class PlanePoint:
    """Alignment and uniformity of one run."""

    cell: str
    alignment: float
    uniformity: float
    score: float
    """Best dev score of the run."""


@dataclass(frozen=True)
class Plane:
    """Points of all runs on the alignment-uniformity plane, and what measured them."""

    points: tuple[PlanePoint, ...]
    source: str


def plane(study: Study) -> Plane | None:
    """Returns the points from the geometry suite where runs have its scores, else from curves at the best checkpoint.

    None if no run has both numbers.
    """
    scored = _geometry_scores(study.scores)
    for source, measured in (
        ("geometry suite", scored),
        ("training batch at the best checkpoint", _geometry_curves(study)),
    ):
        points = [
            PlanePoint(member.cell, *measured[run.signature], run.best or 0.0)
            for member, run in study.finished
            if run.signature in measured
        ]
        if points:
            return Plane(tuple(points), source)
    return None


def _geometry_scores(scores: Sequence[ScoreRow]) -> dict[str, tuple[float, float]]:
    """Returns signature -> (alignment, uniformity) of the geometry suite, of the first kind of positives by name."""
    by_run: dict[str, dict[str, float]] = {}
    for score in scores:
        metric = score.suite.partition(":")[2].partition(" ")[0]
        if metric in (ALIGNMENT, UNIFORMITY) and score.value is not None:
            by_run.setdefault(score.signature, {}).setdefault(metric, score.value)
    return {name: (pair[ALIGNMENT], pair[UNIFORMITY]) for name, pair in by_run.items() if len(pair) == 2}


def _geometry_curves(study: Study) -> dict[str, tuple[float, float]]:
    pairs = {}
    for _, run in study.finished:
        for point in study.curves.get(run.signature, ()):
            alignment, uniformity = point.metrics.get(ALIGNMENT), point.metrics.get(UNIFORMITY)
            if point.examples == run.best_examples and alignment is not None and uniformity is not None:
                pairs[run.signature] = (alignment, uniformity)
    return pairs


RATING_GROUPS = ("0-1", "1-2", "2-3", "3-4", "4-5")
"""Fifths of the STS scale; a rating on a border belongs to the upper group, 5 to the last."""
EDGES = np.linspace(-1.0, 1.0, 41)
"""Edges of the histogram's bins over the cosine."""


@dataclass(frozen=True)
class RatingHistogram:
    """Histogram of one cell's cosines by rating group, all seeds together."""

    label: str
    seeds: int
    counts: np.ndarray
    """Number of sentence pairs, [groups, bins]."""
    means: tuple[float | None, ...]
    """Mean cosine of each group; None for an empty group."""


def rating_histogram(label: str, runs: Sequence[tuple[np.ndarray, np.ndarray]]) -> RatingHistogram:
    """Returns the histogram of (cosines, gold), each [pairs], of every seed of a cell; gold is on the scale 0 to 5."""
    assert runs and all(cosines.shape == gold.shape for cosines, gold in runs)
    cosines = np.clip(np.concatenate([cosines for cosines, _ in runs]), -1.0, 1.0)
    groups = np.clip(np.floor(np.concatenate([gold for _, gold in runs])), 0, len(RATING_GROUPS) - 1).astype(int)
    parts = [cosines[groups == group] for group in range(len(RATING_GROUPS))]
    counts = np.array([np.histogram(part, EDGES)[0] for part in parts])
    return RatingHistogram(label, len(runs), counts, tuple(float(p.mean()) if p.size else None for p in parts))


RatedCosines = tuple[np.ndarray, np.ndarray]
"""Cosines and gold ratings of one run, each [pairs]."""


def read_rated(study: Study, cells: Sequence[str]) -> tuple[str, dict[str, list[RatedCosines]]]:
    """Returns the first suite by name for which runs of these cells stored cosines, and cell -> cosines of each seed.

    Files that are gone or were changed are left out.
    """
    cell_of = {run.signature: cell for cell in cells for _, run in study.cells[cell]}
    scores = [score for score in study.scores if score.signature in cell_of and score.cosines_file]
    suite = min((score.suite for score in scores), default="")
    newest = {score.signature: score for score in scores if score.suite == suite}
    by_cell: dict[str, list[RatedCosines]] = {cell: [] for cell in cells}
    for signature, score in newest.items():
        with contextlib.suppress(TableError):
            cosines, gold = read_cosines(score)
            if gold.min() >= 0 and gold.max() <= len(RATING_GROUPS):  # a user's ratings may have another scale
                by_cell[cell_of[signature]].append((cosines, gold))
    return suite, by_cell


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
