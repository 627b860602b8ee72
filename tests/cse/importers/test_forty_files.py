"""Forty files of seven kinds, each imported twice, reordered, with one more column and one more metric: no run comes
twice, and every name in a file is a setting or a metric of its runs, or is said.

W&B's offline folders and MLflow's stores, which need their packages, are tried beside the forty.
"""

import itertools
import json
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import optuna
import pytest

from analysis.ledger import Ledger
from cse.cli.app import main
from tests.cse.importers.test_folders import write_project, write_result, write_state

RUNS = 6
LATE = "f1"
"""A metric that comes with the second export."""
Row = dict[str, Any]


def rows_of(*, named: str, more: bool, order: Sequence[int]) -> list[Row]:
    """Runs of two arms; `named` says how a run is told from others: id, seed, or nothing."""
    names: dict[str, Callable[[int], Row]] = {
        "id": lambda n: {"id": f"r{n}"},
        "seed": lambda n: {"seed": n // 2},
        "none": lambda n: {},
    }
    rows = []
    for n in range(RUNS):
        row = {**names[named](n), "train.batch_size": 32 * (n % 2 + 1), "pooler": ("cls", "mean")[n % 2]}
        row |= {"rate": (1e-5, 3e-5)[n % 2], "sts": 70 + n / 7, "loss": "NaN" if n == 4 else 0.5 + n / 9}
        rows.append({**row, "late": n / 7, LATE: n / 10} if more else row)
    return [rows[n] for n in order]


def as_table(delimiter: str, encoding: str, named: str) -> Callable[[Path, bool, Sequence[int]], Path]:
    def write(folder: Path, more: bool, order: Sequence[int]) -> Path:
        rows = rows_of(named=named, more=more, order=order)
        lines = [delimiter.join(map(str, line)) for line in ([*rows[0]], *(row.values() for row in rows))]
        file = folder / "runs.csv"
        file.write_text("\n".join(lines) + "\n", encoding=encoding)
        return file

    return write


def as_list(named: str, nested: bool) -> Callable[[Path, bool, Sequence[int]], Path]:
    """W&B's API dictionaries, or a flat list."""

    def write(folder: Path, more: bool, order: Sequence[int]) -> Path:
        runs = []
        for row in rows_of(named=named, more=more, order=order):
            id = {"id": row.pop("id")} if "id" in row else {}
            summary = {name: row.pop(name) for name in ("sts", "loss", LATE) if name in row}
            runs.append({**id, "config": row, "summary": summary} if nested else {**id, **row, **summary})
        file = folder / "runs.json"
        file.write_text(json.dumps(runs), encoding="utf8")
        return file

    return write


def as_study(journal: bool) -> Callable[[Path, bool, Sequence[int]], Path]:
    """A study only grows by trials: those that have ended stay what they are."""

    def write(folder: Path, more: bool, order: Sequence[int]) -> Path:
        file = folder / ("study.log" if journal else "study.db")
        kind = optuna.storages.journal.JournalFileBackend
        storage: Any = optuna.storages.JournalStorage(kind(str(file))) if journal else f"sqlite:///{file}"
        study = optuna.create_study(storage=storage, study_name="s", direction="maximize", load_if_exists=True)
        if not study.trials:
            for row in rows_of(named="none", more=False, order=range(RUNS)):
                study.enqueue_trial({"rate": row["rate"]})
                trial = study.ask()
                trial.suggest_float("rate", 1e-6, 1e-3)
                study.tell(trial, row["sts"])
        return file

    return write


def as_project(folder: Path, more: bool, order: Sequence[int]) -> Path:
    file = folder / "p.db"
    file.unlink(missing_ok=True)
    rows = {f"r{row['train.batch_size']}{row['sts']}": row for row in rows_of(named="none", more=more, order=order)}
    logged = ("sts", LATE) if more else ("sts",)
    write_project(file, {name: [{one: row[one] for one in logged}] for name, row in rows.items()})
    return file


def as_states(folder: Path, more: bool, order: Sequence[int]) -> Path:
    for row in rows_of(named="none", more=more, order=order):
        late = {f"eval_{LATE}": row[LATE]} if more else {}
        write_state(folder / "out" / f"{row['sts']}", 100, [(100, row["sts"])], **late)
    return folder / "out"


def as_results(folder: Path, more: bool, order: Sequence[int]) -> Path:
    for row in rows_of(named="none", more=more, order=order):
        place = folder / "results" / "org__m" / f"{row['sts']}"
        write_result(place, "sts", test=[row["sts"] / 100])
        if more:
            write_result(place, LATE, test=[row[LATE]])
    return folder / "results"


def as_offline(folder: Path, more: bool, order: Sequence[int]) -> Path:
    """Folders that W&B itself writes. A run that says more is resumed, so that it lies in two folders."""
    wandb: Any = pytest.importorskip("wandb", reason="pip install 'cse-search[wandb]'")
    settings = wandb.Settings(silent=True, console="off", mode="offline", x_disable_stats=True)
    place = folder / "wandb"
    for number, row in enumerate(rows_of(named="none", more=more, order=range(RUNS))):
        if place.exists() and len([*place.glob("offline-run-*")]) >= RUNS * (1 + more):
            break
        config = {name: row[name] for name in ("train.batch_size", "pooler", "rate", "late") if name in row}
        about = {"config": config, "id": f"id{number}", "project": "p", "resume": "allow"}
        run = wandb.init(dir=str(folder), reinit="create_new", settings=settings, **about)
        run.log({name: row[name] for name in ("sts", "loss", LATE) if isinstance(row.get(name), float)})
        run.finish()
    return place


def as_store(kind: str) -> Callable[[Path, bool, Sequence[int]], Path]:
    """MLflow's folder or its database, which only grow."""

    def write(folder: Path, more: bool, order: Sequence[int]) -> Path:
        mlflow: Any = pytest.importorskip("mlflow", reason="pip install 'cse-search[mlflow]'")
        os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
        place = folder / ("mlruns" if kind == "folder" else "mlflow.db")
        client = mlflow.MlflowClient(tracking_uri=str(place) if kind == "folder" else f"sqlite:///{place}")
        rows = rows_of(named="none", more=more, order=order)
        if client.get_experiment_by_name("e") is None:
            experiment = client.create_experiment("e", artifact_location=str(folder / "artifacts"))
            for row in rows:
                run = client.create_run(experiment).info.run_id
                for name in ("train.batch_size", "pooler", "rate"):
                    client.log_param(run, name, row[name])
                for name in ("sts", "loss"):
                    client.log_metric(run, name, float(row[name]))
                client.set_terminated(run)
        elif more:
            for run in client.search_runs([client.get_experiment_by_name("e").experiment_id]):
                client.log_param(run.info.run_id, "late", 1)
                client.log_metric(run.info.run_id, LATE, 0.5)
        return place

    return write


NAMED = ("id", "seed", "none")
CSV = itertools.product((",", ";", "\t", ", "), ("utf8", "utf-8-sig"), NAMED)
PAGES = itertools.product((",", ";"), ("utf-8-sig",), NAMED)
LISTS = [*itertools.product(NAMED[:2], (True, False)), ("none", True)]
Write = Callable[[Path, bool, Sequence[int]], Path]
CASES: list[tuple[str, str, Write]] = [
    *(("csv", f"{between!r} {code} {named}", as_table(between, code, named)) for between, code, named in CSV),
    *(("wandb", f"{between!r} {code} {named}", as_table(between, code, named)) for between, code, named in PAGES),
    *(("wandb", f"list {named} {nested}", as_list(named, nested)) for named, nested in LISTS),
    ("optuna", "database", as_study(False)),
    ("optuna", "journal", as_study(True)),
    ("trackio", "project", as_project),
    ("trainer", "states", as_states),
    ("mteb", "results", as_results),
]
PACKAGED: list[tuple[str, str, Write]] = [
    ("wandb", "offline folder", as_offline),
    ("mlflow", "folder", as_store("folder")),
    ("mlflow", "database", as_store("database")),
]
"""Written by the tools themselves; skipped where these are absent."""
TIMES = ((False, False), (False, False), (False, True), (True, True), (True, False))
"""With a column more or not, reordered or not."""
SCORES = {"optuna": "value", "trainer": "eval_sts"}
AFTER = {"trainer": f"eval_{LATE}"}
"""Tool -> its name of LATE."""


@pytest.mark.parametrize(
    ("tool", "name", "write"), [*CASES, *PACKAGED], ids=[f"{tool} {name}" for tool, name, _ in [*CASES, *PACKAGED]]
)
def test_no_run_comes_twice_and_no_setting_is_lost_without_a_word(
    tool: str,
    name: str,
    write: Write,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    order = list(range(RUNS))
    random.Random(0).shuffle(order)
    said = ""
    for more, reordered in TIMES:
        source = write(tmp_path, more, order if reordered else range(RUNS))
        about = ("--as", "w", "--metric", f"{SCORES.get(tool, 'sts')}:max", "--ledger", str(tmp_path / "l.db"))
        assert main(["import", tool, str(source), *about]) == 0
        captured = capsys.readouterr()
        said += captured.out + captured.err
        ledger = Ledger.open(tmp_path / "l.db")
        runs = ledger.runs(sweep="w")
        assert len(runs) == RUNS and len(ledger.cells("w")) == RUNS, (more, reordered)
        assert len({(json.dumps(link.cell, sort_keys=True), link.seed) for link in ledger.cells("w")}) == RUNS
        details = [rows[-1].details for rows in ledger.provenance([run.signature for run in runs]).values()]
        ledger.close()
    if source.suffix in (".csv", ".json") or (tool, name) in {case[:2] for case in PACKAGED}:
        kept = {key for run in runs for key in run.config} | {key for each in details for key in each["metrics"]}
        named = "seed" if "seed" in name else "none"
        names = {one for row in rows_of(named=named, more=True, order=order) for one in row}
        assert [one for one in names if one not in kept and f" {one}" not in said] == []
    if tool != "optuna":
        late = AFTER.get(tool, LATE)
        assert all(late in each["metrics"] for each in details), "the last file is the wide one again"
        assert main(["import", tool, str(source), *about, "--metric", f"{late}:max:0-1"]) == 0
        assert f" already there, {RUNS} scores of runs here added" in capsys.readouterr().out
        assert main(["table", "w", "--format", "json", "--ledger", str(tmp_path / "l.db")]) == 0
        shown = json.loads(capsys.readouterr().out)["rows"]
        assert sum(row["cells"][late]["n"] for row in shown) == RUNS
