"""`cse import optuna` and `cse import mlflow`: from a study or a store to trials, best and a table; twice is once."""

import csv
import json
from pathlib import Path
from typing import Any

import optuna
import pytest

from analysis.answers.lookup import select
from analysis.ledger import Ledger, SweepRow
from analysis.sweep_spec import SweepSpec
from cse.cli.app import main
from tests.commands import printed
from tests.cse.importers.conftest import filled

RENAME = ("--rename", "lr=train.learning_rate")


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    return str(tmp_path / "ledger.db")


def imported(source: object, ledger: str, *words: str) -> int:
    return main(["import", "optuna", str(source), "--as", "mine", "--ledger", ledger, *RENAME, *words])


def rows(out: str) -> list[list[str]]:
    return [[part.strip() for part in line.split("|")[1:-1]] for line in out.splitlines() if line.startswith("| ")]


def test_a_study_becomes_a_sweep(study: Path, ledger: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert imported(study, ledger) == 0
    assert "4 runs imported, 0 already there as mine" in capsys.readouterr().out
    (sweep,) = json.loads(printed(capsys, "ls", "--ledger", ledger, "--format", "json"))["rows"]
    assert (sweep["sweep"], sweep["runs"], sweep["done"]) == ("mine", 4, 4)
    trials = json.loads(printed(capsys, "trials", "mine", "--ledger", ledger, "--format", "json"))["rows"]
    assert sorted(trial["best"] for trial in trials) == [68.0, 70.0, 71.0, 72.5]
    assert {trial["seed"] for trial in trials} == {7}
    assert {trial["source"] for trial in trials} == {f"imported from optuna {study}"}
    cells = json.loads(printed(capsys, "best", "mine", "--ledger", ledger, "--format", "json"))["cells"]
    assert cells[0]["mean"] == 72.5
    assert cells[0]["cell"] == "method.temperature=0.05 train.learning_rate=3e-05"


def test_the_sweep_is_a_table_without_a_space(study: Path, ledger: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert imported(study, ledger) == 0
    capsys.readouterr()
    shown = csv.DictReader(printed(capsys, "table", "mine", "--ledger", ledger, "--format", "csv").splitlines())
    assert sorted(float(row["best mean"]) for row in shown) == [68.0, 70.0, 71.0, 72.5]
    assert isinstance(select("mine", Ledger.open(ledger), None, {}), SweepRow)


def test_the_table_of_a_space_with_these_axes_shows_them(
    study: Path, space: Path, ledger: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert imported(study, ledger) == 0
    capsys.readouterr()
    out = printed(capsys, "table", str(space), "--ledger", ledger, "--format", "md")
    assert [row for row in rows(out) if row[0] in ("0.05", "0.1")] == [
        ["0.05", "1e-05", "1", "70.00"],
        ["0.05", "3e-05", "1", "72.50"],
        ["0.1", "1e-05", "1", "68.00"],
        ["0.1", "3e-05", "1", "71.00"],
    ]
    assert "4 of 4 runs imported from optuna: generated_dev:20 is its `value`" in out


def test_they_are_no_runs_of_ours(
    study: Path, space: Path, ledger: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert imported(study, ledger) == 0
    out = printed(capsys, "plan", str(space), "--ledger", ledger, "--format", "json")
    assert json.loads(out[out.index("{") :])["done"] == 0


def test_a_complete_trial_that_lost_its_value_is_left_out(
    tmp_path: Path, ledger: str, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = tmp_path / "journal.log"
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(journal)))
    study = optuna.create_study(storage=storage, study_name="tuning", direction="maximize")
    study.add_trials([optuna.trial.create_trial(value=float(n)) for n in range(4)])
    journal.write_bytes(journal.read_bytes().replace(b'"value":1.0', b'"vaDue":1.0'))
    assert main(["import", "optuna", str(journal), "--as", "mine", "--ledger", ledger]) == 0
    out, err = capsys.readouterr()
    assert "3 runs imported" in out
    assert err.splitlines() == [
        "cse: left out: runs: 1 without value; import again when they have ended",
        "cse: no seed: 3 runs of 1 configuration, counted from 0 in their order; --seed NAME names what says it",
    ]


def test_a_study_that_minimises_says_the_direction_itself(
    tmp_path: Path, ledger: str, capsys: pytest.CaptureFixture[str]
) -> None:
    filled(f"sqlite:///{tmp_path / 'loss.db'}", direction="minimize")
    assert imported(tmp_path / "loss.db", ledger, "--better", "higher") == 2
    said = "cse: two directions: --better=higher of score=value, and the study minimises it; leave one out\n"
    assert capsys.readouterr().err == said
    assert imported(tmp_path / "loss.db", ledger) == 0
    assert "value: the lower value is the better one; its range is not known" in capsys.readouterr().out
    assert max(run.best or 0.0 for run in Ledger.open(ledger).runs()) == -68.0
    assert main(["table", "mine", "--ledger", ledger, "--format", "csv"]) == 0
    assert "68.0" in (shown := capsys.readouterr().out) and "-68.0" not in shown


def test_a_sweep_of_ours_takes_no_imported_runs(study: Path, ledger: str, capsys: pytest.CaptureFixture[str]) -> None:
    opened = Ledger.open(ledger)
    about: dict[str, Any] = {"method": "simcse", "seed": 0, "owner": "me", "identity": {}, "provenance": {}}
    opened.claim("a" * 24, {}, **about)
    opened.record_sweep("mine", SweepSpec({}))
    opened.link("mine", [("a" * 24, {}, 0)])
    assert imported(study, ledger) == 2
    assert "a sweep of ours: --as mine has runs that were trained here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["SOURCE", "--score", "valu", "--as", "x"], "no such score: score=valu; did you mean value?"),
        (["SOURCE", "--study", "t", "--as", "x"], "unknown study: study=t of source=SOURCE; valid: s"),
        (["SOURCE"], "nothing given: --as NAME; give it too"),
        (["absent.log", "--as", "x"], "no such file: source=absent.log; name a study's database or its journal"),
        (["sqlite:///absent.db", "--as", "x"], "no such file: source=absent.db; name Optuna's database"),
        (["OTHER", "--as", "x"], "no Optuna: source=OTHER has no table studies; name Optuna's own database"),
        (["SOURCE", "--as", "x", "--rename", "lr"], "wrong --rename: rename=lr; write --rename NAME=KEY"),
        (["BROKEN", "--as", "x"], "no study: source=BROKEN ("),
    ],
)
def test_each_mistake_is_one_line(
    words: list[str], line: str, study: Path, ledger: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Ledger.open(tmp_path / "other.db").close()
    (tmp_path / "broken.log").write_text("not a journal\n" * 3, encoding="utf8")
    places = {"SOURCE": str(study), "OTHER": str(tmp_path / "other.db"), "BROKEN": str(tmp_path / "broken.log")}
    for word, place in places.items():
        words, line = [part.replace(word, place) for part in words], line.replace(word, place)
    assert main(["import", "optuna", *words, "--ledger", ledger]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"cse: {line}") and said.count("\n") == 1


def test_a_study_without_finished_trials_is_one_line(
    tmp_path: Path, ledger: str, capsys: pytest.CaptureFixture[str]
) -> None:
    storage = f"sqlite:///{tmp_path / 'empty.db'}"
    optuna.create_study(storage=storage, study_name="s").ask()
    assert imported(tmp_path / "empty.db", ledger) == 2
    assert "no finished runs: source=" in capsys.readouterr().err
    optuna.create_study(storage=storage, study_name="t")
    assert imported(tmp_path / "empty.db", ledger) == 2
    assert "has s, t; give one with --study" in capsys.readouterr().err


def test_an_unknown_tool_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "optna", "study.db", "--as", "x"]) == 2
    assert capsys.readouterr().err == "cse: unknown tool: import=optna; did you mean optuna?\n"


def test_a_report_of_runs_without_a_dev_set_and_without_curves(
    study: Path, ledger: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert imported(study, ledger) == 0
    capsys.readouterr()
    page = Path(printed(capsys, "report", "mine", "--ledger", ledger).strip()).read_text(encoding="utf8")
    assert "72.5" in page and "learning_rate=3e-05" in page


def test_a_point_that_was_tried_again_is_a_seed_and_two_points_can_be_compared(
    tmp_path: Path, ledger: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """They had no table, since all were seed 0, and the gate took neither the sweep nor its runs."""
    made = optuna.create_study(storage=f"sqlite:///{tmp_path / 'again.db'}", direction="maximize")
    for place in range(10):
        made.enqueue_trial({"lr": (1e-5, 3e-5)[place % 2]})
        trial = made.ask()
        trial.suggest_float("lr", 1e-6, 1e-3, log=True)
        made.tell(trial, (0.60, 0.63)[place % 2] + place // 2 * 0.001)
    printed(capsys, "import", "optuna", str(tmp_path / "again.db"), "--as", "mine", "--scale", "1", "--ledger", ledger)
    assert main(["table", "mine", "--ledger", ledger, "--format", "csv"]) == 0
    assert [line.split(",")[2] for line in capsys.readouterr().out.splitlines()[1:]] == ["5", "5"]
    assert main(["gate", "mine:lr=1e-5", "--against", "mine:lr=3e-5", "--ledger", ledger]) == 3
    assert capsys.readouterr().out.startswith("worse: value -0.0300 (")
    assert main(["gate", "mine:lr=3e-5", "--against", "mine:lr=1e-5", "--ledger", ledger]) == 0
    assert capsys.readouterr().out.startswith("better: value +0.0300 (")


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


def imported_store(source: object, ledger: Path, *words: str) -> int:
    return main(["import", "mlflow", str(source), "--as", "mine", "--score", "sts", "--ledger", str(ledger), *words])


def test_finished_runs_become_a_table(
    store: Path, space: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = tmp_path / "ledger.db"
    assert imported_store(store, ledger) == imported_store(f"sqlite:///{store}", ledger, "--study", "tuned") == 0
    out = capsys.readouterr().out
    assert "2 runs imported, 0 already there" in out and "0 runs imported, 2 already there" in out
    assert {(run.seed, run.best) for run in Ledger.open(ledger).runs()} == {(7, 70.0), (7, 72.5)}
    shown = " ".join(printed(capsys, "table", str(space), "--ledger", str(ledger), "--format", "md").split())
    assert "| 0.05 | 1e-05 | 1 | 70.00 |" in shown and "| 0.1 | 3e-05 | 1 | 72.50 |" in shown


def test_each_mistake_about_mlflow_is_one_line(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = tmp_path / "ledger.db"
    mistakes = {
        (store, "--study", "tunde"): f"unknown study: study=tunde of source=sqlite:///{store}; did you mean tuned?",
        (tmp_path / "absent.db",): f"no such file: source={tmp_path}/absent.db; name MLflow's database",
        (f"sqlite:///{tmp_path}/absent.db",): f"no such file: source={tmp_path}/absent.db; name MLflow's database",
        (store, "--score", "stss"): "no such score: score=stss; did you mean sts?",
    }
    for words, line in mistakes.items():
        assert imported_store(words[0], ledger, *map(str, words[1:])) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"cse: {line}") and said.count("\n") == 1, said
