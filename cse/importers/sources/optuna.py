"""Reads the trials of an Optuna study from a database or a journal; the value of a single objective is `value`."""

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import optuna

from analysis.ledger import mask_password
from cse.importers import INFEASIBLE, ForeignRun
from cse.importers.values import numbers, require_table, scalar, sqlite_file
from cse_train.fields import ConfigError, nearest
from cse_train.reading import reading

SCORE = "value"
CONSTRAINTS = "constraints"
"""System attribute in which Optuna's samplers store constraint values; a trial is feasible if none is above 0."""


def read(source: str, study: str | None) -> list[ForeignRun]:
    """Returns every trial of a study, complete ones as finished; several objectives are `value_0`, `value_1` and so on.

    Raises ConfigError for an unknown source or study, and for several without a name.
    """
    masked = mask_password(source)
    with reading("no study", f"source={masked}", "name a database's URL, or the file of Optuna's journal"):
        storage = _storage(source)
        studies = optuna.get_all_study_names(storage)
    if study is None and len(studies) > 1:
        raise ConfigError([f"several studies: source={masked} has {', '.join(sorted(studies))}; give one with --study"])
    if not studies:
        raise ConfigError([f"no study: source={masked} has none; name the database or the journal of one"])
    if study is not None and study not in studies:
        raise ConfigError([f"unknown study: study={study} of source={masked}; {nearest(study, studies)}"])
    with reading("unreadable study", f"source={masked}", "use the version of Optuna that wrote it"):
        loaded = optuna.load_study(study_name=study or studies[0], storage=storage)
        trials = loaded.get_trials(deepcopy=False)
        minimised = frozenset(
            name
            for name, direction in zip(_names(len(loaded.directions)), loaded.directions, strict=True)
            if direction == optuna.study.StudyDirection.MINIMIZE
        )
    remarks = [
        f"n is 1 for each trial, whose value is the mean of {name}: its spread is not read"
        for name in dict.fromkeys(name for trial in trials for name in _list_means(trial))
    ]
    return [_run(loaded.study_name, trial, minimised, remarks) for trial in trials]


def _storage(source: str) -> Any:
    if (file := sqlite_file(source)) is not None:
        require_table(file, "studies", "Optuna")
        return optuna.storages.RDBStorage(f"sqlite:///{file}")
    if "://" in source:
        return optuna.storages.RDBStorage(source)
    if not Path(source).is_file():
        raise ConfigError([f"no such file: source={source}; name a study's database or its journal"])
    return optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(source))


def _names(count: int) -> list[str]:
    return [SCORE] if count == 1 else [f"{SCORE}_{place}" for place in range(count)]


def _run(study: str, trial: Any, minimised: frozenset[str], remarks: Sequence[str]) -> ForeignRun:
    objectives = trial.values or []  # a damaged journal holds complete trials without a value
    values = dict(zip(_names(len(objectives)), objectives, strict=True))
    seed = {"seed": trial.user_attrs["seed"]} if isinstance(trial.user_attrs.get("seed"), int) else {}
    begun = trial.datetime_start
    state = "" if trial.state == optuna.trial.TrialState.COMPLETE else trial.state.name.lower()
    infeasible = any(amount > 0 for amount in trial.system_attrs.get(CONSTRAINTS) or ())
    measured = numbers(trial.user_attrs)
    attributes = {name: value for name, value in trial.user_attrs.items() if name not in seed}
    return ForeignRun(
        id=f"{study}/{trial.number}/{begun}",
        unfinished=state or (INFEASIBLE if infeasible else ""),
        settings={name: scalar(value) for name, value in {**seed, **trial.params}.items()},
        metrics={**measured, **values},
        rest={name: scalar(value) for name, value in attributes.items() if name not in measured},
        is_flat=bool(measured),
        lower=minimised,
        seconds=trial.duration.total_seconds() if trial.duration else None,
        begun=begun.timestamp() if begun else None,
        remarks=remarks,
    )


def _list_means(trial: Any) -> list[str]:
    """Returns the attributes whose numbers average to a value of the trial, since they are most likely seeds."""
    lists = {name: scores for name, scores in trial.user_attrs.items() if isinstance(scores, list) and len(scores) > 1}
    return [
        name
        for name, scores in lists.items()
        if all(isinstance(score, int | float) for score in scores)
        and any(math.isclose(value, statistics.fmean(scores)) for value in trial.values or ())
    ]
