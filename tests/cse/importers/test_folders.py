"""What lies in folders of tools, and seeds of one configuration out of each tool, in every format and command."""

import csv
import json
import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import optuna
import pytest

from analysis.ledger import Ledger
from cse.cli.app import main


@pytest.fixture
def take(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """The first line that an import prints, or its one line of error."""

    def taken(tool: str, source: Path, metric: str, *words: str, rc: int = 0) -> str:
        about = ("--as", "w", "--metric", metric, "--ledger", str(tmp_path / "l.db"))
        assert main(["import", tool, str(source), *about, *words]) == rc
        said = capsys.readouterr()
        return (said.err if rc else said.out).partition(" as w")[0].strip()

    return taken


def runs_of(tmp_path: Path) -> list[tuple[int, float | None]]:
    return sorted((run.seed, run.best) for run in Ledger.open(tmp_path / "l.db").runs())


def write_state(folder: Path, step: int, log: list[tuple[int, float]], best: int | None = None, **more: float) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    history = [{"step": 10, "loss": 1.0}, *({"step": at, "eval_sts": value, "epoch": 1.0, **more} for at, value in log)]
    state = {"global_step": step, "max_steps": 100, "train_batch_size": 64, "log_history": history}
    state["best_model_checkpoint"] = f"out/checkpoint-{best}" if best else None
    (folder / "trainer_state.json").write_text(json.dumps(state), encoding="utf8")


def test_the_trainers_runs_are_seeds_of_one_configuration(take: Callable[..., str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_state(out / "seed0" / "checkpoint-50", 50, [(50, 0.70)])
    write_state(out / "seed0" / "checkpoint-100", 100, [(50, 0.70), (100, 0.68)], best=50)
    write_state(out / "seed1", 100, [(50, 0.71), (100, 0.72)])
    assert take("trainer", out, "eval_sts:max:0-1") == "2 runs imported, 0 already there"
    assert runs_of(tmp_path) == [(0, 0.70), (1, 0.72)], "the best step where one was picked, else the last"
    write_state(out / "seed2", 100, [(100, 0.69)])
    write_state(out / "copy of seed2", 100, [(100, 0.69)])
    assert take("trainer", out, "eval_sts:max:0-1") == "1 run imported, 2 already there"
    assert take("trainer", out / "seed1" / "trainer_state.json", "eval_sts:max:0-1").startswith("0 runs imported, 1")


def write_result(folder: Path, task: str, **splits: list[float]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    scores = {split: [{"main_score": v, "hf_subset": str(n)} for n, v in enumerate(vs)] for split, vs in splits.items()}
    result = {"task_name": task, "mteb_version": "1.12.75", "dataset_revision": "x", "scores": scores}
    (folder / f"{task}.json").write_text(json.dumps(result), encoding="utf8")


def test_models_of_mteb_with_tasks_for_columns(
    take: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results"
    write_result(results / "org__a" / "r1", "STS12", test=[0.70])
    write_result(results / "org__a" / "r1", "STS17", test=[0.8, 0.9], dev=[0.5])
    write_result(results / "org__b" / "r2", "STS12", test=[0.75])
    meta = {"name": "org/a", "revision": "r1"}
    (results / "org__a" / "r1" / "model_meta.json").write_text(json.dumps(meta), encoding="utf8")
    assert take("mteb", results, "STS12", "--metric", "STS17") == "2 runs imported, 0 already there"
    assert take("mteb", results, "STS12", "--metric", "STS17") == "0 runs imported, 2 already there"
    assert main(["table", "w", "--format", "json", "--ledger", str(tmp_path / "l.db")]) == 0
    rows = {row["key"]["model"]: row["cells"] for row in json.loads(capsys.readouterr().out)["rows"]}
    assert rows["org/a"]["STS17"]["mean"] == pytest.approx(0.85) and rows["org__b"]["best"]["mean"] == 0.75


def write_project(file: Path, runs: Mapping[str, Sequence[Mapping[str, float]]]) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("create table metrics (id integer primary key, run_id, timestamp, run_name, step, metrics)")
        connection.execute("create table configs (id integer primary key, run_id, run_name, config, created_at)")
        for name, values in runs.items():
            config = json.dumps({"lr": 3e-5, "_Group": "x"})
            connection.execute("insert into configs values (null, ?, ?, ?, '')", (name, name, config))
            for step, logged in enumerate(values):
                row = (name, "2026-01-01T00:00:00+00:00", name, step, json.dumps(dict(logged)))
                connection.execute("insert into metrics values (null, ?, ?, ?, ?, ?)", row)
    connection.close()


TRACKED = {"a": [60.0, 70.0], "b": [61.0, 69.0], "c": [68.0]}


def test_a_project_of_trackio(take: Callable[..., str], tmp_path: Path) -> None:
    logged = {name: [{"sts": value} for value in values] for name, values in TRACKED.items()}
    write_project(tmp_path / "p.db", {name: logged[name] for name in "ab"})
    assert take("trackio", tmp_path / "p.db", "sts") == "2 runs imported, 0 already there"
    assert runs_of(tmp_path) == [(0, 70.0), (1, 69.0)]
    write_project(tmp_path / "q.db", {name: logged[name] for name in "bac"})
    assert take("trackio", tmp_path / "q.db", "sts") == "1 run imported, 2 already there"


@pytest.mark.parametrize(
    ("tool", "name", "text", "line"),
    [
        ("trainer", "out/x.txt", "", "no runs: source=PATH has no trainer_state.json;"),
        ("trainer", "out/trainer_state.json", "{", "unreadable run: file=PATH/trainer_state.json ("),
        ("trainer", "out/trainer_state.json", '{"global_step": 1}', "unreadable run: file=PATH/trainer_state.json ("),
        ("mteb", "out/x.txt", "", "no results: source=PATH has no TASK.json;"),
        ("mteb", "out/STS12.json", "[", "unreadable result: file=PATH/STS12.json ("),
        ("mteb", "out/STS12.json", '{"scores": {"test": [{}]}}', "unreadable result: file=PATH/STS12.json ("),
        ("trackio", "out/x.txt", "", "no such file: source=PATH; name PROJECT.db"),
    ],
)
def test_each_mistake_is_one_line(
    tool: str, name: str, text: str, line: str, take: Callable[..., str], tmp_path: Path
) -> None:
    file = tmp_path / name
    file.parent.mkdir()
    file.write_text(text, encoding="utf8")
    said = take(tool, file.parent, "sts", rc=2)
    assert said.startswith(f"cse: {line.replace('PATH', str(file.parent))}") and "\n" not in said
    assert take(tool, file.parent, "sts", "--study", "s", rc=2).startswith("cse: no studies: study=s;")


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
