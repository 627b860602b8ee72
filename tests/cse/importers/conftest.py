"""An Optuna study with finished, failed and running trials, and a space whose axes are its parameters."""

from pathlib import Path
from typing import Any

import optuna
import pytest

SPACE = """version: 1
id: mine
title: Somebody's study
method: simcse
seeds: 1
set:
  train.corpus: generated
  train.dev: "generated_dev:20"
space:
  method.temperature: {grid: [0.05, 0.1]}
  train.learning_rate: {grid: [1.0e-5, 3.0e-5]}
"""
VALUES = {(0.05, 1e-5): 70.0, (0.05, 3e-5): 72.5, (0.1, 1e-5): 68.0, (0.1, 3e-5): 71.0}


@pytest.fixture
def space(tmp_path: Path) -> Path:
    file = tmp_path / "mine.yaml"
    file.write_text(SPACE, encoding="utf8")
    return file


def filled(storage: Any, name: str = "s", direction: str = "maximize") -> Any:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(storage=storage, study_name=name, direction=direction)
    for (temperature, rate), value in VALUES.items():
        study.enqueue_trial({"method.temperature": temperature, "lr": rate})
        trial = study.ask()
        trial.suggest_float("method.temperature", 0.01, 1.0)
        trial.suggest_float("lr", 1e-6, 1e-3, log=True)
        trial.set_user_attr("seed", 7)
        study.tell(trial, value)
    study.tell(study.ask(), state=optuna.trial.TrialState.FAIL)
    study.ask()
    return study


@pytest.fixture
def study(tmp_path: Path) -> Path:
    filled(f"sqlite:///{tmp_path / 'study.db'}")
    return tmp_path / "study.db"
