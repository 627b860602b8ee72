"""What a run reports while it trains, and how it ended. Imports no library."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Point:
    """What a run reports after each dev evaluation."""

    examples: int
    step: int
    seconds: float
    """Since the start of the run, dev evaluations and earlier attempts included."""
    metrics: dict[str, float]
    """The dev score under its set's name, NaN for none, and the means of the step metrics since the point before."""
    best: float
    """Best dev score so far; a later equal score does not replace it."""
    best_examples: int
    replayed: bool = False
    """True when a resumed run reports again what an earlier attempt reached."""
    precision: str = ""
    """The arithmetic that the device computed; empty for a point of a version that did not say it."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended: at its end, or before it."""

    stopped: bool
    """`report` asked for it."""
    examples: int
    best: float
    best_examples: int
    seconds: float
    points: tuple[Point, ...]
    precision: str = ""
    """As the points say it."""
