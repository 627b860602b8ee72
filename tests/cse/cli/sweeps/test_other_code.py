"""Two versions of the code on one ledger: the second is told before it trains, and shares what is the same run."""

import json
import sqlite3
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from cluster.runtime import code_version
from cse.cli.app import main
from tests.cluster.runtime.test_storage import SPACE
from tests.cse.cli.sweeps.pretended import NoRay


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("cluster.sweep.run_sweep.ray_cluster", NoRay)
    (tmp_path / "mine.yaml").write_text(SPACE, encoding="utf8")
    return tmp_path


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    said = capsys.readouterr()
    assert "Traceback" not in said.out + said.err
    return said.err.strip().splitlines()


def run(capsys: pytest.CaptureFixture[str], code: str) -> list[str]:
    """A driver of this code, as far as Ray."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(code_version, "code_digest", lambda: code)
        assert main(["run", "mine.yaml", "--ledger", "l.db"]) == 2
    return lines(capsys)


def test_the_second_is_told_and_claims_what_the_first_gave_back(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "a" * 16) == ["ray  starts on this machine", "cse: here Ray would start"]
    told, _, stopped = run(capsys, "b" * 16)
    assert told.startswith(f"ledger  runs of other code in this ledger: 1 of {'a' * 16}, this is {'b' * 16}; ")
    assert told.endswith("give a new --ledger and --storage") and stopped == "cse: here Ray would start"
    ledger = Ledger.open("l.db", create=False)
    (row,) = [one for one in ledger.runs() if one.attempt == 2]
    assert [one.details["code_digest"][0] for one in ledger.provenance([row.signature])[row.signature]] == ["a", "b"]
    assert ledger.codes() == {"a" * 16: 1, "b" * 16: 1}
    ledger.close()


def test_one_code_alone_is_told_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert run(capsys, "a" * 16) == ["ray  starts on this machine", "cse: here Ray would start"]


def test_a_row_that_a_hand_has_broken_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "a" * 16)
    with sqlite3.connect("l.db") as connection:
        connection.execute("update cse_provenance set details = ?", (json.dumps({"code_digest": "a"})[:-1],))
    (line,) = run(capsys, "b" * 16)
    assert line.startswith("cse: ledger row: cse_provenance signature=")
    assert "has broken JSON in details (malformed JSON); cse doctor --repair --yes takes it out" in line
