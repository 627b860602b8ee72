"""A side can be taken off: without its folder everything else works, and only its own tests are gone."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from cse.cli import app
from tests.test_architecture import PACKAGES, REPO, SIDES

COMMANDS = {
    "compare": {"compare", "confirm", "gate"},
    "site": {"site"},
    "live_page": {"dashboard"},
    "importers": {"import"},
    "trackers": set[str](),
    "bundles": {"bundle"},
    "doctor": {"doctor"},
    "downloads": {"data"},
}
"""Side -> its commands."""
SPACE = """\
version: 1
id: mine
title: Two rates
method: simcse
seeds: 1
set: {train.corpus: generated, train.dev: "generated_dev:20", train.encoder: words-l1-h64, train.examples: 64}
space: {train.learning_rate: {grid: [1.0e-4, 3.0e-4]}}
"""


def without(taken_off: Iterable[str], folder: Path) -> Path:
    """A copy of the packages and the tests without some sides and their tests."""
    for package in (*PACKAGES, "tests", "docs", "benchmarks"):
        shutil.copytree(REPO / package, folder / package, ignore=shutil.ignore_patterns("__pycache__", "gallery"))
    for file in (path for path in REPO.iterdir() if path.is_file()):
        shutil.copy(file, folder)
    for side in taken_off:
        shutil.rmtree(folder / "cse" / side)
        shutil.rmtree(folder / "tests" / "cse" / side)
    (folder / "mine.yaml").write_text(SPACE, encoding="utf8")
    return folder


def called(folder: Path, *words: str) -> str:
    """What a command prints, with the packages of that folder."""
    environment = os.environ | {"PYTHONPATH": str(folder), "COLUMNS": "120"}
    done = subprocess.run([sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.skipif(not (REPO / ".git").exists(), reason="a copy, of which sides may have been taken off")
def test_every_side_is_a_folder_of_its_own_commands() -> None:
    assert [f"cse.{side}" for side in COMMANDS] == list(SIDES)
    assert [side for side in COMMANDS if not (REPO / "cse" / side).is_dir()] == [], (
        "else rules of the house are skipped"
    )
    mine = {side: {name for name, file in app.command_files().items() if side in file.parts} for side in COMMANDS}
    assert mine == COMMANDS


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("side", COMMANDS)
def test_without_a_side_the_rest_works_and_all_other_tests_are_found(side: str, tmp_path: Path) -> None:
    folder = without([side], tmp_path)
    listed = {line.split()[0] for line in called(folder, "-m", "cse", "--help").splitlines() if line.startswith("  ")}
    assert not COMMANDS[side] & listed and {"plan", "run", "table"} <= listed
    assert "2 runs" in called(folder, "-m", "cse", "plan", "mine.yaml")
    assert "train.learning_rate" in called(folder, "-m", "cse", "table", "mine.yaml")
    found = called(folder, "-m", "pytest", "--collect-only", "-q")
    assert f"tests/cse/{side}/" not in found and "tests/cse/cli/test_app.py::" in found


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_without_any_side_a_space_is_trained_and_its_table_printed(tmp_path: Path) -> None:
    folder = without(COMMANDS, tmp_path)
    listed = called(folder, "-m", "cse", "--help")
    assert "plan" in listed and not any(f"  {name} " in listed for names in COMMANDS.values() for name in names)
    assert "2 done" in called(folder, "-m", "cse", "run", "mine.yaml", "--yes")
    assert "0.0001" in called(folder, "-m", "cse", "table", "mine.yaml")
    assert "2/2 already in the ledger, 0 run" in called(folder, "-m", "cse", "run", "mine.yaml", "--yes")
