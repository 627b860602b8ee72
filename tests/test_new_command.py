"""A new command is one module: added to a copy of the project, it is listed, runs and fails as every other does."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[1]
MODULE = '''
"""`cse newest-run`: the run that was written last."""

from cse.cli import ledgers, options
from cse_train.fields import ConfigError


def newest_run(ledger: ledgers.LedgerUrl = None) -> None:
    """Name the run that was written last."""
    opened = ledgers.existing_ledger(ledger)
    runs = sorted(opened.runs() if opened else [], key=lambda run: run.updated)
    if not runs:
        raise ConfigError([f"no run: ledger={ledgers.ledger_url(ledger)}; cse run starts one"])
    print(runs[-1].signature)
'''


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The five packages with one module more, and no line changed."""
    folder = tmp_path_factory.mktemp("copy")
    for name in ("analysis", "cluster", "cse", "cse_train", "search_spaces"):
        shutil.copytree(REPO / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "weights"))
    (folder / "cse" / "cli" / "results" / "newest_run.py").write_text(MODULE, encoding="utf8")
    return folder


def called(copy: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(copy), "COLUMNS": "80"}
    command = [sys.executable, "-m", "cse", *words]
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=120)


def test_a_new_command_is_listed_under_its_folder(copy: Path) -> None:
    text = called(copy, "--help").stdout
    results, *_ = text[text.index("Read results:") :].split("\n\n")
    assert "newest-run Name the run that was written last." in " ".join(results.split())


def test_a_new_command_runs_and_its_mistakes_are_one_line(copy: Path) -> None:
    assert "--ledger" in called(copy, "newest-run", "--help").stdout
    done = called(copy, "newest-run")
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("cse: no run: ledger=") and line.endswith("cse run starts one")
