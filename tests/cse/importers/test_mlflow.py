"""`cse import mlflow`: from a SQLite store that MLflow wrote to a table; twice is once."""

from pathlib import Path
from typing import Any

import pytest

from analysis.ledger import Ledger
from cse.cli.app import main

mlflow = pytest.importorskip("mlflow", reason="pip install 'cse-search[mlflow]'")
VALUES = {("0.05", "1e-05"): 70.0, ("0.1", "3e-05"): 72.5}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    client: Any = mlflow.MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'mlflow.db'}")
    experiment = client.create_experiment("tuned", artifact_location=str(tmp_path))
    for number, ((temperature, rate), value) in enumerate([*VALUES.items(), (("0.1", "1e-05"), 9.0)]):
        run = client.create_run(experiment).info.run_id
        for name, text in {"method.temperature": temperature, "train.learning_rate": rate, "seed": "7"}.items():
            client.log_param(run, name, text)
        for step in range(2):
            client.log_metric(run, "sts", value - 1 + step, step=step)
        client.set_terminated(run, "FINISHED" if number < 2 else "FAILED")
    return tmp_path / "mlflow.db"


def imported(source: object, ledger: Path, *words: str) -> int:
    return main(["import", "mlflow", str(source), "--as", "mine", "--score", "sts", "--ledger", str(ledger), *words])


def test_finished_runs_become_a_table(
    store: Path, space: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = tmp_path / "ledger.db"
    assert imported(store, ledger) == imported(f"sqlite:///{store}", ledger, "--study", "tuned") == 0
    out = capsys.readouterr().out
    assert "2 runs imported, 0 already there" in out and "0 runs imported, 2 already there" in out
    assert {(run.seed, run.best) for run in Ledger.open(ledger).runs()} == {(7, 70.0), (7, 72.5)}
    assert main(["table", str(space), "--ledger", str(ledger), "--format", "md"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "| 0.05 | 1e-05 | 1 | 70.00 |" in shown and "| 0.1 | 3e-05 | 1 | 72.50 |" in shown


def test_each_mistake_is_one_line(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = tmp_path / "ledger.db"
    mistakes = {
        (store, "--study", "tunde"): f"unknown study: study=tunde of source=sqlite:///{store}; did you mean tuned?",
        (tmp_path / "absent.db",): f"no such file: source={tmp_path}/absent.db; name MLflow's database",
        (f"sqlite:///{tmp_path}/absent.db",): f"no such file: source={tmp_path}/absent.db; name MLflow's database",
        (store, "--score", "stss"): "no such score: score=stss; did you mean sts?",
    }
    for words, line in mistakes.items():
        assert imported(words[0], ledger, *map(str, words[1:])) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"cse: {line}") and said.count("\n") == 1, said
