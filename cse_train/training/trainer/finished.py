"""Whether a folder has a program's run that ended in order; for a process that trains nothing."""

import json
from pathlib import Path

from cse_train.results import Point
from cse_train.training.trainer.models import TrialFolder


def read_finished(folder: Path, signature: str, examples: int) -> list[Point]:
    """The points of the run of this signature; none where it did not end in order."""
    kept = TrialFolder(folder)
    try:
        end = json.loads(kept.end_file.read_text(encoding="utf8"))
        return kept.read_points() if end.get("signature") == signature else []
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return []
