"""Whether a folder has a run that was trained to its end; for a process that trains nothing."""

from pathlib import Path

from cse_train import checkpoint
from cse_train.fields import Json
from cse_train.results import Point
from cse_train.soundness import reading


def read_finished(folder: Path, signature: str, examples: int) -> list[Point]:
    """The points of the run of this signature and so many examples; none where its checkpoints are not all intact.

    A damaged one is told in the log.
    """
    newest = checkpoint.load_newest([folder], signature=signature, fits=_require_points)
    if newest is None or newest[0].get("signature") != signature:
        return []
    points = [Point(**point) for point in newest[0]["points"]]
    return points if points and points[-1].examples >= examples else []


def _require_points(path: Path, state: Json) -> None:
    """Raise CorruptCheckpoint where the points are none."""
    with reading(path):
        [Point(**point) for point in state["points"]]
