"""Whether a folder has a run that was trained to its end; for a process that trains nothing."""

from pathlib import Path
from typing import Any

from cse_train import checkpoint


def read_finished(folder: Path, signature: str, examples: int) -> list[dict[str, Any]] | None:
    """The points of the run of this signature and so many examples; None where its checkpoints are not all intact.

    A damaged one is told in the log.
    """
    newest = checkpoint.load_newest([folder], signature=signature)
    state = {} if newest is None else newest[0]
    points = list(state["points"]) if state.get("signature") == signature else []
    return points if points and points[-1]["examples"] >= examples else None
