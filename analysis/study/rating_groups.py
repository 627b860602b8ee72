"""Predicted cosines by human rating: a good encoder's histograms move to the right from group to group."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.study.study import Study
from analysis.tables.pair_cosines import read_cosines
from analysis.tables.spec import TableError

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
