"""Scores a finished run's best checkpoint on named suites; the per-pair cosines are kept in one small file per set."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from cse_train.checkpoint import best_path
from cse_train.data_paths import DataPaths
from cse_train.evaluate.judgements import save_queries
from cse_train.evaluate.models import open_model
from cse_train.evaluate.run_suites import evaluate
from cse_train.evaluate.suites.registry import columns, require
from cse_train.evaluate.vectors import TextModel
from cse_train.files import replace_file
from cse_train.results import CosinesFile, Score
from cse_train.soundness import CorruptCheckpoint


def score_checkpoint(
    best_folder: Path,
    suites: Sequence[str],
    paths: DataPaths,
    out: Path,
    signature: str | None = None,
    encoder: str | None = None,
) -> list[Score]:
    """Scores the best checkpoint of a run on suites (of `registry.names`), every column once, in the order asked for.

    `encoder`: where the run's encoder is now. Files go to `out`, written aside and renamed. Every rank of a process
    group calls it, since the ranks share the encoding; all get the same scores. Raises ConfigError for an unknown,
    missing or truncated suite, CorruptCheckpoint (also where the run has another signature), OSError for a full disk.
    """
    if not best_path(best_folder).is_file():
        raise CorruptCheckpoint(best_path(best_folder), "it is gone")
    require(suites, paths)
    return _score(open_model(best_folder, signature=signature, encoder=encoder), suites, paths, out)


def score_folder(folder: Path, suites: Sequence[str], paths: DataPaths, out: Path) -> list[Score]:
    """Scores a model folder of another library on suites, as `score_checkpoint` does with a run's checkpoint."""
    require(suites, paths)
    return _score(open_model(folder), suites, paths, out)


def _score(model: TextModel, suites: Sequence[str], paths: DataPaths, out: Path) -> list[Score]:
    groups = {name: set(columns(name)) for name in suites}
    # Where another suite gives all columns of one too, that one is left out: nothing is computed twice.
    wholes = [name for name, group in groups.items() if not any(group < other for other in groups.values())]
    scores = evaluate(model, paths, wholes, {})
    return [keep_cosines(score, out) for score in {score.column: score for score in scores}.values()]


def keep_cosines(score: Score, out: Path) -> Score:
    """Moves a score's per-pair cosines, or per-query values, to a file in `out`, and returns the score without them."""
    if score.queries is not None:
        save_queries(out, score.column, score.queries, score.protocol.data_hash)
        return replace(score, queries=None)
    if score.cosines is None:
        return score
    path = out / f"cosines-{re.sub('[^A-Za-z0-9_]+', '-', score.suite)}.npz"
    file_hash = save_cosines(path, score.cosines.cosines, score.cosines.gold)
    return replace(score, cosines=None, file=CosinesFile(path, file_hash))


def save_cosines(path: Path, cosines: np.ndarray, gold: np.ndarray) -> str:
    """Writes the cosines and ratings of one suite to an .npz and returns its sha256; equal arrays give equal bytes."""

    def write(aside: Path) -> None:
        with aside.open("wb") as file:
            np.savez(file, cosines=cosines, gold=gold)

    replace_file(path, write)
    return hashlib.sha256(path.read_bytes()).hexdigest()
