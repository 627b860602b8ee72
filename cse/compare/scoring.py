"""Computes scores that a comparison lacks: of a folder for this comparison alone, of runs into their ledger."""

import math
from collections.abc import Sequence
from pathlib import Path

from analysis.answers.models import Model, ModelScore
from analysis.ledger import Ledger
from cse.experiments.held_out import score_run
from cse_train.data_paths import DataPaths
from cse_train.evaluate.models import is_run, open_model
from cse_train.evaluate.run_suites import evaluate
from cse_train.evaluate.suites.registry import find_unscored, require, require_known, still_valid
from cse_train.plugins.snapshot import call_apart


def score_folder(
    folder: Path,
    suites: Sequence[str],
    paths: DataPaths,
    pooler: str | None,
    max_length: int | None,
    *,
    strict: bool = True,
) -> dict[str, ModelScore]:
    """Returns column -> score of a model folder, without NaN; `pooler` is for a plain encoder folder.

    `strict` False keeps fewer than `max_length` tokens where a plain encoder has fewer positions.
    Where plug-ins are loaded, scoring runs in a new process, so that no plug-in runs in the one that scores the other
    model. Raises ConfigError as `open_model` does.
    """
    return call_apart(_score, folder, suites, paths, pooler, max_length, strict)


def _score(
    folder: Path, suites: Sequence[str], paths: DataPaths, pooler: str | None, max_length: int | None, strict: bool
) -> dict[str, ModelScore]:
    require_known(suites, paths)
    require(suites, paths)
    brings_pooler = folder.is_file() or is_run(folder) or (folder / "modules.json").is_file()
    model = open_model(folder, pooler=None if brings_pooler else pooler, max_length=max_length, strict=strict)
    return {
        score.column: ModelScore(
            score.value,
            score.protocol,
            score.cosines.cosines if score.cosines else None,
            score.cosines.gold if score.cosines else None,
            score.queries,
            model.content_hash,
        )
        for score in evaluate(model, paths, suites, {})
        if not math.isnan(score.value)
    }


def score_runs(model: Model, suites: Sequence[str], ledger: Ledger, paths: DataPaths) -> int:
    """Scores the runs that lack a suite, as `cse eval` does, and returns how many runs were scored."""
    require_known(suites, paths)
    scored = 0
    for run in model.runs:
        stored = {score.suite: score.protocol for score in ledger.scores([run.signature])}
        missing = find_unscored(suites, still_valid(stored, paths))
        if missing:
            score_run(run, ledger, missing, paths)
            scored += 1
    return scored
