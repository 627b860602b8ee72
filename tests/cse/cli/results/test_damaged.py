"""What was cut short, made by another version or linked elsewhere: one line, exit code 2, and nothing is touched."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from cse_train.encoder.folders import find_weights
from tests.cluster.runtime.test_storage import SPACE
from tests.commands import refused

pytestmark = pytest.mark.usefixtures("somewhere")


@pytest.mark.parametrize(
    "argv",
    [
        ("eval", "run", "--suite", "generated_dev", "--pooler", "mean"),
        ("embed", "run", "text.txt", "--to", "out.npy", "--pooler", "mean"),
        ("export", "run", "--to", "out"),
    ],
    ids=lambda argv: str(argv[0]),
)
def test_a_truncated_checkpoint(capsys: pytest.CaptureFixture[str], argv: tuple[str, ...]) -> None:
    Path("run/best").mkdir(parents=True)
    shutil.copy(find_weights() / "words-l1-h64" / "model.safetensors", "run/best/model.safetensors")
    with open("run/best/model.safetensors", "r+b") as file:
        file.truncate(1000)
    Path("text.txt").write_text("a line\n", encoding="utf8")
    line = refused(capsys, *argv)
    assert line.startswith("cse: corrupt checkpoint: ")
    assert "run/best/model.safetensors: " in line
    assert not Path("out").exists()
    assert not Path("out.npy").exists()


@pytest.mark.parametrize("argv", [("trials",), ("ls",), ("status",), ("run", "mine.yaml")], ids=lambda argv: argv[0])
def test_a_ledger_of_another_version(capsys: pytest.CaptureFixture[str], argv: tuple[str, ...]) -> None:
    Path("mine.yaml").write_text(SPACE, encoding="utf8")
    Ledger.open("l.db").close()
    with sqlite3.connect("l.db") as connection:
        connection.execute("update cse_meta set value = '99' where key = 'schema_version'")
    line = refused(capsys, *argv, "--ledger", "l.db")
    assert line.startswith("cse: ledger schema: version=99 at sqlite:///")
    assert line.endswith("upgrade cse-search or use another --ledger")


def test_a_storage_whose_runs_are_linked_elsewhere(capsys: pytest.CaptureFixture[str], somewhere: Path) -> None:
    Path("mine.yaml").write_text(SPACE, encoding="utf8")
    Path("results").mkdir()
    Path("elsewhere").mkdir()
    Path("results/runs").symlink_to(somewhere / "elsewhere")
    line = refused(capsys, "run", "mine.yaml", "--ledger", "l.db")
    assert line.startswith(f"cse: out of the storage: path={somewhere}/results/runs/")
    assert not list(Path("elsewhere").iterdir())
    ledger = Ledger.open("l.db")
    assert [run.state for run in ledger.runs()] == []
    ledger.close()
