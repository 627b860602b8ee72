"""Damaged files of other tools: refused in clean lines, or what is taken over has a finite score."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest

from analysis.ledger import Ledger
from cse.importers import sources
from cse.importers.take import ImportRequest, take
from tests.cse.importers.test_folders import write_project, write_result, write_state
from tests.damage.boundaries import Boundary
from tests.damage.damages import as_json, damaged
from tests.damage.tries import FEW, MANY, by_name, try_many

NAMES = ("runs.json", "runs.csv", "study.db", "study.log", "table.csv", "trainer_state.json", "p.db", "task/r/sts.json")


SCORES = {"trainer": "eval_sts", "trackio": "sts", "mteb": "sts"}


@pytest.fixture(scope="module")
def boundaries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Boundary]:
    return by_name(all_boundaries(tmp_path_factory.mktemp("sound")), NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_damaged_files_are_refused_in_clean_lines(boundaries: dict[str, Boundary], name: str, capsys) -> None:
    try_many(boundaries[name], FEW)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_thousands_of_damaged_files(boundaries: dict[str, Boundary], name: str, capsys) -> None:
    try_many(boundaries[name], MANY)


def all_boundaries(folder: Path) -> list[Boundary]:
    """Exported runs and a study: what is taken over has a finite score and is in the ledger."""
    runs = [
        {"id": str(n), "state": "finished", "config": {"method": "simcse", "lr": n / 7}, "summary": {"value": n / 3}}
        for n in range(4)
    ]
    rows = "".join(f"{n},finished,{n / 7},{n / 3}\n" for n in range(4))
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    for storage in (f"sqlite:///{folder / 'study.db'}", _journal(folder / "study.log")):
        study = optuna.create_study(storage=storage, study_name="s")
        study.add_trials([optuna.trial.create_trial(value=float(n)) for n in range(4)])

    write_state(folder / "out", 100, [(50, 0.5), (100, 0.6)])
    write_project(folder / "p.db", {"a": [{"sts": 60.0}, {"sts": 70.0}], "b": [{"sts": 61.0}]})
    write_result(folder / "task" / "r", "sts", test=[0.7, 0.8])

    def reader(tool: str, name: str) -> Callable[[Path, bytes], object]:
        def read(place: Path, content: bytes) -> None:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(content)
            finished = sources.load(tool).read(str(place / name.partition("/")[0]), None)
            ledger = Ledger.open(place / "ledger.db")
            request = ImportRequest(tool=tool, source=name, sweep="s", score=SCORES.get(tool, "value"))
            take(finished, request, ledger)
            assert all(run.best is not None and np.isfinite(run.best) for run in ledger.runs())
            ledger.close()

        return read

    contents = {
        "runs.json": ("wandb", as_json(runs)),
        "runs.csv": ("wandb", f"ID,State,train.lr,value\n{rows}".encode()),
        "study.db": ("optuna", (folder / "study.db").read_bytes()),
        "study.log": ("optuna", (folder / "study.log").read_bytes()),
        "table.csv": ("csv", f"model,seed,more,value\n{rows.replace('finished', '1')}".encode()),
        "trainer_state.json": ("trainer", (folder / "out" / "trainer_state.json").read_bytes()),
        "p.db": ("trackio", (folder / "p.db").read_bytes()),
        "task/r/sts.json": ("mteb", (folder / "task" / "r" / "sts.json").read_bytes()),
    }
    return [Boundary(name, damaged(content), reader(tool, name)) for name, (tool, content) in contents.items()]


def _journal(file: Path) -> Any:
    return optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(file)))
