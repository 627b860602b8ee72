"""Seeds of one configuration, or a single run, out of each tool: every format has a row with as many entries as its
header, and every command names the cell that the others print."""

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path

import optuna
import pytest

from cse.cli.app import main
from tests.cse.importers.test_folders import write_project, write_result, write_state

VALUES = (80.0, 81.0, 82.0)


def as_csv(folder: Path, values: tuple[float, ...], name: str = "acc") -> Path:
    file = folder / "runs.csv"
    file.write_text(
        f"seed,{name}\n" + "".join(f"{seed},{value}\n" for seed, value in enumerate(values)), encoding="utf8"
    )
    return file


def as_wandb(folder: Path, values: tuple[float, ...]) -> Path:
    runs = [
        {"id": f"r{seed}", "config": {"lr": 1e-5, "seed": seed}, "summary": {"acc": v}} for seed, v in enumerate(values)
    ]
    (folder / "runs.json").write_text(json.dumps(runs), encoding="utf8")
    return folder / "runs.json"


def as_trainer(folder: Path, values: tuple[float, ...]) -> Path:
    for seed, value in enumerate(values):
        write_state(folder / "out" / f"seed-{seed}", 100, [(100, value)], eval_acc=value)
    return folder / "out"


def as_trackio(folder: Path, values: tuple[float, ...]) -> Path:
    write_project(folder / "p.db", {f"r{seed}": [{"acc": value}] for seed, value in enumerate(values)})
    return folder / "p.db"


def as_optuna(folder: Path, values: tuple[float, ...]) -> Path:
    study = optuna.create_study(storage=f"sqlite:///{folder / 's.db'}", direction="maximize")
    for seed, value in enumerate(values):
        trial = study.ask()
        trial.set_user_attr("seed", seed)
        study.tell(trial, value)
    return folder / "s.db"


def as_mteb(folder: Path, values: tuple[float, ...]) -> Path:
    for seed, value in enumerate(values):
        write_result(folder / "results" / f"me__model_seed{seed}" / "no_revision", "acc", test=[value])
    return folder / "results"


def as_mlflow(folder: Path, values: tuple[float, ...]) -> Path:
    mlflow = pytest.importorskip("mlflow", reason="pip install 'cse-search[mlflow]'")
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{folder / 'mlflow.db'}")
    for seed, value in enumerate(values):
        run = client.create_run("0")
        client.log_param(run.info.run_id, "seed", seed)
        client.log_metric(run.info.run_id, "acc", value)
        client.set_terminated(run.info.run_id)
    return folder / "mlflow.db"


def rows_of(page: str) -> list[list[str]]:
    """The first three entries of each row of the page's tables, without what is marked up within them."""
    entries = (re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>.*?</tr>", page, re.DOTALL))
    return [[re.sub("<.*?>", "", entry) for entry in row[:3]] for row in entries]


@pytest.mark.parametrize(
    ("tool", "write", "score", "seeds"),
    [
        ("csv", as_csv, "acc", 3),
        ("csv", as_csv, "acc", 1),
        ("wandb", as_wandb, "acc", 3),
        ("trainer", as_trainer, "eval_acc", 3),
        ("mteb", as_mteb, "acc", 3),
        ("trackio", as_trackio, "acc", 3),
        ("optuna", as_optuna, "value", 3),
        ("mlflow", as_mlflow, "acc", 3),
    ],
)
def test_one_configuration_is_a_row_everywhere(
    tool: str,
    write: Callable[[Path, tuple[float, ...]], Path],
    score: str,
    seeds: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def show(*words: str, rc: int = 0) -> str:
        capsys.readouterr()
        assert main([*words, "--ledger", str(tmp_path / "l.db")]) == rc
        return capsys.readouterr().out

    source = write(tmp_path, VALUES[:seeds])
    about = ("--score", score, "--scale", "100")
    show("import", tool, str(source), "--as", "one", *about)
    show("import", "csv", str(as_csv(tmp_path, VALUES[:seeds], score)), "--as", "other", *about)
    mean = sum(VALUES[:seeds]) / seeds
    printed = f"{mean:.2f}" + (" ± 1.00" if seeds > 1 else "")
    (row,) = json.loads(show("table", "one", "--format", "json"))["rows"]
    assert (row["key"], row["cells"]["best"]["mean"], row["cells"]["best"]["n"]) == ({}, mean, seeds)
    assert row["cells"]["best"]["seeds"] == list(range(seeds))
    expected = [["cell", "n", "best"], ["all", str(seeds), printed]]
    assert rows_of(show("table", "one", "--format", "html")) == expected
    tex = [line.split(" & ") for line in show("table", "one", "--format", "tex").splitlines() if line.endswith(r" \\")]
    assert [len(line) for line in tex] == [3, 3] and tex[1][:2] == ["all", str(seeds)]
    text = show("table", "one")
    assert f"| all  |   {seeds} |" in text and "rule off" not in text
    names, trained = csv.reader(show("table", "one", "--format", "csv").splitlines())
    assert dict(zip(names, trained, strict=True))["best mean"] == str(mean)
    assert "pick: all (" in show("best", "one") and "cell: all" in show("explain", "one", "--cell", "all")
    assert f"A: one:all (seed{'s' * (seeds > 1)} " in show("compare", "one:all", "other")
    has_seeds = seeds > 1 and tool != "trackio"  # numbers that an import gives are no common seeds
    show("gate", "one:all", "--against", "other:all", rc=0 if has_seeds else 4)
    show("report", "one", "--out", str(tmp_path / "report"))
    assert rows_of((tmp_path / "report" / "index.html").read_text(encoding="utf8"))[:2] == expected
