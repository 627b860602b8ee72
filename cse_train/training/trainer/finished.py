"""Reads the points of a program's run that ended in order, and checks its model; for a process that trains nothing."""

import json
from pathlib import Path

from cse_train.files import PROGRAM_DIGESTS, PROGRAM_MARK, hash_file, read_digests
from cse_train.results import Point
from cse_train.training.trainer.models import TrialFolder


class NotJudged(Exception):
    """A model cannot be compared with what was saved; the message says why."""


class DamagedModel(Exception):
    """A model differs from what was saved, or is another run's; the message says where."""


def read_finished(folder: Path, signature: str, examples: int) -> list[Point]:
    """Returns the points of the program's run of this signature, or none if it did not end in order."""
    trial_folder = TrialFolder(folder)
    try:
        end = json.loads(trial_folder.end_file.read_text(encoding="utf8"))
        return trial_folder.read_points() if end.get("signature") == signature else []
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return []


def check_model(folder: Path, signature: str) -> None:
    """Raises DamagedModel or NotJudged unless the best model of a program's run is the one that it saved.

    A run without a model passes where it saved none, or where `cse clean` freed it. Raises OSError for files that this
    machine cannot read.
    """
    best, files = TrialFolder(folder).best, read_digests(folder)
    if not best.is_dir():
        if files:
            raise DamagedModel(f"{best}: its model was deleted, and not by cse clean")
        return
    stored = _read_signature(best / PROGRAM_MARK)
    if stored not in (None, signature):
        raise DamagedModel(f"{best}: it is of another run, {str(stored)[:12]} and not {signature[:12]}")
    if files is None:
        is_listed = (folder / PROGRAM_DIGESTS).exists()
        cause = f"{PROGRAM_DIGESTS} is damaged" if is_listed else "it was saved by a version without checksums"
        raise NotJudged(f"{best}: {cause}")
    for name, digest in files.items():
        path = best / name
        if not path.is_file() or hash_file(path) != digest:
            reason = "it is not what was written, by its checksum" if path.is_file() else "it is gone"
            raise DamagedModel(f"{path}: {reason}")


def _read_signature(mark: Path) -> object:
    """Returns the signature of the run to which a model belongs; None if the mark is damaged or names none."""
    try:
        return json.loads(mark.read_bytes()).get("signature") or None
    except (FileNotFoundError, ValueError, AttributeError, RecursionError):
        return None
