"""A ledger that a hand has changed: one line that names the row, exit code 2."""

import sqlite3
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from analysis.sweep_spec import SweepSpec
from tests.commands import printed, refused

EDITS = {
    "update cse_runs set state = 'finished'": "cse_runs signature=aa state='finished' is unknown, the states are",
    "update cse_runs set config = '{oops'": "cse_runs signature=aa has broken JSON in config",
    "update cse_runs set config = '[]'": "cse_runs signature=aa config=[] is not a JSON object",
    "update cse_runs set identity = ''": "cse_runs signature=aa has broken JSON in identity",
    "update cse_runs set best = 'much'": "cse_runs signature=aa best='much' is not a number",
    "update cse_runs set seed = 'x'": "cse_runs signature=aa seed='x' is not a whole number",
}
SHOWN_BY_STATUS = ("state =", "config = '{oops'", "best =")
"""Edits of what `cse status` reads, which is not every column."""


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    made = Ledger.open(tmp_path / "l.db")
    made.record_sweep("mine", SweepSpec({}))
    made.link("mine", [("aa", {"x": 1}, 0)])
    made.claim("aa", {}, method="simcse", seed=0, owner="me", identity={}, provenance={})
    made.close()
    return tmp_path / "l.db"


def refuse_edited(capsys: pytest.CaptureFixture[str], ledger: Path, edit: str, *command: str) -> str:
    with sqlite3.connect(ledger) as connection:
        connection.execute(edit)
    line = refused(capsys, *command, "--ledger", ledger)
    assert line.startswith("cse: ledger row: ") and line.endswith("cse doctor --repair --yes takes it out")
    return line


@pytest.mark.parametrize("edit", EDITS)
def test_the_row_is_named(ledger: Path, capsys: pytest.CaptureFixture[str], edit: str) -> None:
    assert EDITS[edit] in refuse_edited(capsys, ledger, edit, "trials", "mine")


@pytest.mark.parametrize("edit", [one for one in EDITS if any(part in one for part in SHOWN_BY_STATUS)])
def test_the_progress_names_it_too(ledger: Path, capsys: pytest.CaptureFixture[str], edit: str) -> None:
    assert "cse_runs signature=aa " in refuse_edited(capsys, ledger, edit, "status", "mine")


@pytest.mark.parametrize("command", ["ls", "status"])
def test_a_sweep_is_named(ledger: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    with sqlite3.connect(ledger) as connection:
        connection.execute("update cse_sweeps set spec = '[]'")
    assert not printed(capsys, command, "--ledger", str(ledger)).startswith("mine")
    assert Ledger.open(ledger).sweeps() == []
