"""Learning curves: mean and spread over the seeds of a cell."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analysis.ledger.rows import read_metric
from analysis.statistics.basics import mean_and_sd
from analysis.study.study import Study
from analysis.tables.results import DEV

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
