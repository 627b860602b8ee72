"""The page on trackers: its commands on a study of Optuna's make a sweep and a table."""

from pathlib import Path

import optuna
import pytest

from cse.cli.app import main

SPACE = """version: 1
id: tuned
method: simcse
seeds: 1
dev: generated_dev:20
space: {train.learning_rate: {grid: [1.0e-5, 3.0e-5]}}
"""
FIRST = ("cse import optuna sqlite:///study.db --as tuned", "cse best tuned")
RENAMED = ("cse import optuna study.db --as tuned --rename lr=train.learning_rate", "cse table tuned.yaml")


@pytest.mark.parametrize(
    ("commands", "said"),
    [(FIRST, "72.50"), (RENAMED, "2 of 2 runs imported from optuna: generated_dev:20 is its `value`")],
)
def test_a_study_becomes_a_sweep(
    commands: tuple[str, str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tuned.yaml").write_text(SPACE, encoding="utf8")
    study = optuna.create_study(storage="sqlite:///study.db", study_name="lr", direction="maximize")
    rates = optuna.distributions.FloatDistribution(1e-6, 1e-3)
    for rate, value in ((1e-5, 70.0), (3e-5, 72.5)):
        study.add_trial(optuna.trial.create_trial(params={"lr": rate}, distributions={"lr": rates}, value=value))
    for command in commands:
        assert main(command.split()[1:]) == 0, capsys.readouterr().err
    assert said in " ".join(capsys.readouterr().out.split())
