"""Alignment and uniformity of runs: how close positives lie, how evenly the sphere is covered; lower is better."""

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.ledger import ScoreRow
from analysis.study.study import Study

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
    scored = _scores(study.scores)
    for source, measured in (("geometry suite", scored), ("training batch at the best checkpoint", _curves(study))):
        points = [
            PlanePoint(member.cell, *measured[run.signature], run.best or 0.0)
            for member, run in study.finished
            if run.signature in measured
        ]
        if points:
            return Plane(tuple(points), source)
    return None


def _scores(scores: Sequence[ScoreRow]) -> dict[str, tuple[float, float]]:
    """Returns signature -> (alignment, uniformity) of the geometry suite, of the first kind of positives by name."""
    by_run: dict[str, dict[str, float]] = {}
    for score in scores:
        metric = score.suite.partition(":")[2].partition(" ")[0]
        if metric in (ALIGNMENT, UNIFORMITY) and score.value is not None:
            by_run.setdefault(score.signature, {}).setdefault(metric, score.value)
    return {name: (pair[ALIGNMENT], pair[UNIFORMITY]) for name, pair in by_run.items() if len(pair) == 2}


def _curves(study: Study) -> dict[str, tuple[float, float]]:
    pairs = {}
    for _, run in study.finished:
        for point in study.curves.get(run.signature, ()):
            alignment, uniformity = point.metrics.get(ALIGNMENT), point.metrics.get(UNIFORMITY)
            if point.examples == run.best_examples and alignment is not None and uniformity is not None:
                pairs[run.signature] = (alignment, uniformity)
    return pairs
