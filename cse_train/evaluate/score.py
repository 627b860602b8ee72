"""Score a finished run's best checkpoint on named suites; the per-pair cosines stay in one small file per set."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cse_train.data_paths import DataPaths
from cse_train.evaluate.models.open import open_model
from cse_train.evaluate.protocol import Protocol, Result
from cse_train.evaluate.suites.registry import column_of, columns, require
from cse_train.evaluate.suites.run import Options, evaluate
from cse_train.evaluate.suites.sts import ScoredPairs
from cse_train.files import replace_file


@dataclass(frozen=True, kw_only=True)
class Score:
    """One value with all that is needed to compare or to examine it."""

    suite: str
    """The column that it is stored as (see `columns`)."""
    value: float
    """Correlations and accuracies times 100."""
    protocol: Protocol
    cosines_file: Path | None = None
    """npz with `cosines` and `gold`, float64 [pairs], in the order of the suite; of graded sets alone."""
    cosines_hash: str | None = None
    """sha256 of the file."""


def score_checkpoint(best_folder: Path, wanted: Sequence[str], paths: DataPaths, out: Path) -> list[Score]:
    """Score the best checkpoint of a run on suites (of `columns.names`), every column once, in the order asked for.

    Files go to `out`, written aside and renamed. Every rank of a process group calls it, since the ranks share what is
    to be encoded; all get the same scores. Raises ConfigError for an unknown, missing or truncated suite,
    CorruptCheckpoint, OSError for a full disk.
    """
    require(wanted, paths)
    model = open_model(best_folder)
    kept: dict[str, Score] = {}

    def keep(scored: ScoredPairs) -> None:
        kept[scored.result.suite] = store(scored, out)

    results = evaluate(model, paths, _without_parts(wanted), Options(), keep)
    scores = (kept.get(column_of(result)) or _score(result) for result in results)
    return list({score.suite: score for score in scores}.values())


def _without_parts(wanted: Sequence[str]) -> list[str]:
    """The suites without those whose columns another one gives too, so that nothing is computed twice."""
    groups = {name: set(columns(name)) for name in wanted}
    parts = {name for name, own in groups.items() if any(own < other for other in groups.values())}
    return [name for name in wanted if name not in parts]


def _score(result: Result) -> Score:
    return Score(suite=column_of(result), value=result.value, protocol=result.protocol)


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
