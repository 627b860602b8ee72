"""Reports of a run: a point after each dev evaluation, and the outcome at the end. Imports no library."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Point:
    """Report of a run after one dev evaluation."""

    examples: int
    """Number of training examples seen so far."""
    step: int
    seconds: float
    """Seconds since the start of the run, dev evaluations and earlier attempts included."""
    metrics: dict[str, float]
    """Dev score under its set's name, NaN for none, and the mean of each step metric since the point before."""
    best: float
    """Best dev score so far; a later equal score does not replace it."""
    best_examples: int
    """Training examples seen at the best dev score."""
    replayed: bool = False
    """True when a resumed run reports again what an earlier attempt reached."""
    precision: str = ""
    """Arithmetic that the device computed with; empty for a point of a version that did not store it."""


@dataclass(frozen=True)
class Outcome:
    """Final state of a run that reached its end or was stopped."""

    stopped: bool
    """True where the caller's report of a point asked to end the run early."""
    examples: int
    best: float
    best_examples: int
    seconds: float
    points: tuple[Point, ...]
    precision: str = ""
    """Arithmetic of the run, as its points give it."""
