"""Optuna: the finished trials of a study, out of a database or a journal; the value of one objective is `value`."""

from pathlib import Path
from typing import Any

import optuna

from analysis.ledger import mask_password
from cse.importers import ForeignRun
from cse.importers.values import numbers, require_table, scalar, sqlite_file
from cse_train.fields import ConfigError, nearest
from cse_train.reading import reading

SCORE = "value"


def read(source: str, study: str | None) -> list[ForeignRun]:
    """Every trial, finished where it is complete. Of several objectives the values are `value_0`, `value_1`, …"""
    shown = mask_password(source)
    with reading("no study", f"source={shown}", "name a database's URL, or the file of Optuna's journal"):
        storage = _storage(source)
        studies = optuna.get_all_study_names(storage)
    if study is None and len(studies) > 1:
        raise ConfigError([f"several studies: source={shown} has {', '.join(sorted(studies))}; give one with --study"])
    if not studies:
        raise ConfigError([f"no study: source={shown} has none; name the database or the journal of one"])
    if study is not None and study not in studies:
        raise ConfigError([f"unknown study: study={study} of source={shown}; {nearest(study, studies)}"])
    with reading("unreadable study", f"source={shown}", "use the version of Optuna that wrote it"):
        loaded = optuna.load_study(study_name=study or studies[0], storage=storage)
        trials = loaded.get_trials(deepcopy=False)
        minimised = frozenset(
            name
            for name, direction in zip(_names(len(loaded.directions)), loaded.directions, strict=True)
            if direction == optuna.study.StudyDirection.MINIMIZE
        )
    return [_run(loaded.study_name, trial, minimised) for trial in trials]


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


def _run(study: str, trial: Any, minimised: frozenset[str]) -> ForeignRun:
    given = trial.values or []  # a damaged journal holds complete trials without a value
    values = dict(zip(_names(len(given)), given, strict=True))
    seed = {"seed": trial.user_attrs["seed"]} if isinstance(trial.user_attrs.get("seed"), int) else {}
    begun = trial.datetime_start
    return ForeignRun(
        id=f"{study}/{trial.number}/{begun}",
        unfinished="" if trial.state == optuna.trial.TrialState.COMPLETE else trial.state.name.lower(),
        settings={name: scalar(value) for name, value in {**seed, **trial.params}.items()},
        metrics={**numbers(trial.user_attrs), **values},
        rest={name: scalar(value) for name, value in trial.user_attrs.items() if name not in seed},
        lower=minimised,
        seconds=trial.duration.total_seconds() if trial.duration else None,
        begun=begun.timestamp() if begun else None,
    )
