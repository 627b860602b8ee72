"""A ledger that a hand has changed: one line that names the row, exit code 2."""

import sqlite3
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from cluster.cli import main

EDITS = {
    "update cse_runs set state = 'finished'": "cse_runs signature=aa state='finished' is unknown, the states are",
    "update cse_runs set config = '{oops'": "cse_runs signature=aa has broken JSON in config",
    "update cse_runs set identity = ''": "cse_runs signature=aa has broken JSON in identity",
}


@pytest.mark.parametrize("edit", EDITS)
def test_the_row_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], edit: str
) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = Ledger.open(tmp_path / "l.db")
    ledger.record_sweep("mine", {})
    ledger.link("mine", "aa", {"x": 1}, 0)
    ledger.claim("aa", {}, method="simcse", seed=0, owner="me", identity={}, provenance={})
    ledger.close()
    with sqlite3.connect(tmp_path / "l.db") as connection:
        connection.execute(edit)
    assert main(["trials", "--ledger", str(tmp_path / "l.db")]) == 2
    said = capsys.readouterr()
    (line,) = said.err.strip().splitlines()
    assert line.startswith("cse: ledger row: ") and EDITS[edit] in line and "restore a copy" in line
    assert "Traceback" not in said.out + said.err
