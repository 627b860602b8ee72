"""Reads the points of a run that was trained to its end, for a process that trains nothing."""

from pathlib import Path

from cse_train import checkpoint
from cse_train.fields import Json
from cse_train.results import Point
from cse_train.soundness import reading


def read_finished(folder: Path, signature: str, examples: int) -> list[Point]:
    """Returns the points of the run of this signature if it has trained `examples` examples, else none.

    Damaged checkpoints count as none and are logged.
    """
    newest = checkpoint.load_newest([folder], signature=signature, fits=_require_points)
    if newest is None or newest[0].get("signature") != signature:
        return []
    points = [Point(**point) for point in newest[0]["points"]]
    return points if points and points[-1].examples >= examples else []


def _require_points(path: Path, state: Json) -> None:
    """Raises CorruptCheckpoint if the points of a state cannot be read."""
    with reading(path):
        [Point(**point) for point in state["points"]]
