"""Score a finished run's best checkpoint on named suites; the per-pair cosines stay in one small file per suite."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cse_train.checkpoint import replace_file
from cse_train.config import DataPaths
from cse_train.evaluate.models import open_model
from cse_train.evaluate.protocol import Protocol
from cse_train.evaluate.sts_suite import ScoredPairs, score_sets


@dataclass(frozen=True, kw_only=True)
class Score:
    """One value with all that is needed to compare or to examine it."""

    suite: str
    value: float
    """Spearman correlation times 100."""
    protocol: Protocol
    cosines_file: Path
    """npz with `cosines` and `gold`, float64 [pairs], in the order of the suite."""
    cosines_hash: str
    """sha256 of the file."""


def score_checkpoint(best_folder: Path, suites: Sequence[str], paths: DataPaths, out: Path) -> list[Score]:
    """Score the best checkpoint of a run once per suite, in order; files go to `out`, written aside and renamed.

    Raises ConfigError for an unknown, missing or truncated suite, CorruptCheckpoint, OSError for a full disk.
    """
    return [store(scored, out) for scored in score_sets(open_model(best_folder), paths, suites)]


def store(scored: ScoredPairs, out: Path) -> Score:
    """The score with its per-pair cosines in a file of `out`."""
    result = scored.result
    path = out / f"cosines-{re.sub('[^A-Za-z0-9_]+', '-', result.suite)}.npz"
    digest = save_cosines(path, scored.cosines, scored.gold)
    return Score(
        suite=result.suite,
        value=result.value,
        protocol=result.protocol,
        cosines_file=path,
        cosines_hash=digest,
    )


def save_cosines(path: Path, cosines: np.ndarray, gold: np.ndarray) -> str:
    """Write the file of one suite and return its sha256; equal arrays give equal bytes."""

    def write(aside: Path) -> None:
        with aside.open("wb") as file:
            np.savez(file, cosines=cosines, gold=gold)

    replace_file(path, write)
    return hashlib.sha256(path.read_bytes()).hexdigest()
