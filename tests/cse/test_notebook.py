"""`import cse`: light, complete, and not broken by folders of a person's own that have our packages' names."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import cse
from analysis.ledger import Ledger
from cse_train.fields import ConfigError

REPO = Path(__file__).resolve().parents[2]
SPACE = """version: 1
id: mine
method: simcse
seeds: 2
set: {train.encoder: words-l1-h64, train.corpus: generated, train.dev: "generated_dev:20", train.examples: 64}
space: {train.learning_rate: {grid: [1e-4, 3e-4]}}
"""
THEIRS = """
import analysis, cluster.mine
assert analysis.WHOSE == cluster.mine.WHOSE == "theirs"
import cse
runs = cse.frames.runs("results/ledger.db")
print(len(runs), cse.plan("mine.yaml").counts["runs"], len(str(cse.table("mine.yaml"))) > 100)
import analysis.more
assert analysis.more.WHOSE == "theirs" and sys.modules["analysis"] is analysis
assert not hasattr(analysis, "ledger") and "analysis.ledger" not in sys.modules
"""
LATER = """
import cse
print(len(cse.frames.runs("results/ledger.db")))
import analysis
assert analysis.WHOSE == "theirs"
print(len(cse.frames.curves("results/ledger.db")))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a space, a ledger, and packages of the person's own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(SPACE, encoding="utf8")
    ledger = Ledger.open(tmp_path / "results" / "ledger.db")
    ledger.claim("one", {}, method="simcse", seed=0, owner="me", identity={}, provenance={})
    ledger.close()
    for name in ("analysis/__init__", "analysis/more", "cluster/__init__", "cluster/mine"):
        file = tmp_path / f"{name}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text('WHOSE = "theirs"\n', encoding="utf8")
    return tmp_path


def python(folder: Path, code: str) -> str:
    """Output of a process that looks for modules in its folder first, as a notebook does."""
    command = [sys.executable, "-c", f"import sys; sys.path.insert(1, {str(REPO)!r})\n{code}"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_cse_imports_nothing_heavy(tmp_path: Path) -> None:
    names = "numpy torch ray pandas optuna sqlalchemy typer analysis cluster cse_train".split()
    said = python(tmp_path, f"import cse; print(cse.__version__, [n for n in {names} if n in sys.modules])")
    assert said == f"{cse.__version__} []\n"


def test_packages_of_a_persons_own_break_nothing_and_stay_theirs(folder: Path) -> None:
    assert python(folder, THEIRS).split() == ["1", "4", "True"]


def test_a_package_of_a_persons_own_may_be_imported_later(folder: Path) -> None:
    assert python(folder, LATER).split() == ["1", "0"]


def test_the_command_beside_folders_of_a_persons_own(folder: Path) -> None:
    command = [Path(sys.executable).with_name("cse"), "ls"]
    environment = os.environ | {"PYTHONPATH": "."}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout.startswith("no sweeps yet")


def test_a_plan_and_a_table_show_themselves(folder: Path) -> None:
    plan = cse.plan(folder / "mine.yaml", seeds=1, set={"train.examples": 32})
    assert plan.counts == {
        "cells": 2, "seeds": 1, "runs": 2, "unique": 2, "done": 0, "to_run": 2, "missing_input": 0
    }  # fmt: skip
    assert repr(plan).startswith("2 cells x 1 seed = 2 runs")
    table = cse.table("mine.yaml")
    assert "<table" in table._repr_html_() and "| train.learning_rate |" in str(table)
    frame = table.frame()
    assert list(frame["train.learning_rate"]) == [1e-4, 3e-4] and list(frame["n"]) == [0, 0]


def test_a_shipped_encoder_embeds_sentences() -> None:
    vectors = cse.load_model("words-l1-h64", pooler="mean").embed(["one sentence", "another"])
    assert vectors.shape == (2, 64)


def test_mistakes_are_one_line(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown option: seed=3; did you mean seeds\?"):
        cse.run("mine.yaml", seed=3)
    with pytest.raises(ConfigError, match=r"unknown space: space=E77; did you mean E7\?"):
        cse.plan("E77")
    with pytest.raises(AttributeError, match="module 'cse' has no attribute 'train'"):
        getattr(cse, "train")  # noqa: B009
