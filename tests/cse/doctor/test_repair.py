"""`cse doctor --repair`: shown first, done with --yes, and then nothing is left to repair."""

import subprocess
import sys
from pathlib import Path

import pytest

from analysis.ledger import Claim, Ledger
from cse.cli.app import main
from cse_train import checkpoint
from cse_train.config import parse_run
from cse_train.encoder.backbone import load_backbone
from cse_train.files import HOST
from cse_train.methods.base import load_method
from tests.commands import printed

SETTINGS = {"method": "simcse", "train.encoder": "words-l1-h64", "method.pooler": "mean"}


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    monkeypatch.chdir(tmp_path)
    return Ledger.open("l.db")


def claim(ledger: Ledger, signature: str) -> Claim:
    facts = {"method": "simcse", "seed": 0, "owner": "gone", "identity": {}, "provenance": {}}
    claimed = ledger.claim(signature, SETTINGS, **facts)
    assert claimed is not None
    return claimed


def finished(ledger: Ledger, signature: str) -> Path:
    """A run in its folder with its model."""
    folder = Path("runs", signature, "final").resolve()
    run = parse_run(SETTINGS)
    model = load_method(run.method).build(run.options, load_backbone("words-l1-h64"))
    checkpoint.save_best(folder, run, model, {"best": 1.0, "examples": 8}, signature)
    ended = {"examples": 8, "best": 1.0, "best_examples": 8, "seconds": 1.0, "folder": folder}
    ledger.finish(claim(ledger, signature), "done", **ended)
    return folder


def repaired(capsys: pytest.CaptureFixture[str], *more: str) -> list[str]:
    return printed(capsys, "doctor", "--repair", "--ledger", "l.db", "--storage", ".", *more).splitlines()


def test_everything_is_shown_then_put_right_and_trained_again(
    ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("sound", "freed", "removed", "cut", "other")
    sound, freed, removed, cut, foreign = (finished(ledger, name) for name in names)
    for file in (freed / checkpoint.BEST, removed / checkpoint.BEST):
        file.unlink()
    (removed / "best").rmdir()
    removed.rmdir()
    (cut / checkpoint.BEST).write_bytes((cut / checkpoint.BEST).read_bytes()[:999])
    (foreign / checkpoint.BEST).write_bytes((sound / checkpoint.BEST).read_bytes())
    claim(Ledger.open("l.db", lease=-1.0), "orphan")
    claim(Ledger.open("l.db", lease=86_400.0), "future")
    claim(ledger, "living")
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    part = sound / "best" / f".model.safetensors.{HOST}.{int(dead.stdout)}"
    part.write_bytes(b"half")

    lines = repaired(capsys)
    assert lines[-1] == "6 would be put right; --yes does it" and part.exists()
    assert [line.partition(": ")[0] for line in lines[:-1]] == [
        *["orphaned attempt"] * 2,
        *["run without files"] * 3,
        "partial file",
    ]
    told = "\n".join(lines)
    for words in ("run=orphan attempt=1 of gone", "run=future attempt=1", "run=removed ", "run=cut ", "run=other "):
        assert words in told
    assert "its folder is gone" in told and "it is of another run, sound and not other" in told
    assert ledger.states(["removed", "orphan"]) == {"removed": "done", "orphan": "lost"}

    assert repaired(capsys, "--yes")[-1] == "6 put right" and not part.exists()
    states = {name: ledger.run(name).state for name in ("sound", "freed", "living")}  # type: ignore[union-attr]
    assert states == {"sound": "done", "freed": "done", "living": "claimed"}
    for name in ("removed", "cut", "other", "orphan", "future"):
        row = ledger.run(name)
        assert row is not None and row.state == "lost" and claim(ledger, name).attempt == 2
    assert repaired(capsys) == ["0 would be put right; --yes does it"]


def test_anothers_runs_are_repaired_only_where_their_user_is_named(
    ledger: Ledger, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ben's storage may only be away from this machine."""
    monkeypatch.setenv("LOGNAME", "anna")
    for signature in ("hers", "his"):
        folder = finished(ledger, signature)
        (folder / checkpoint.BEST).unlink()
        (folder / "best").rmdir()
        folder.rmdir()
    with ledger._engine.begin() as connection:
        connection.exec_driver_sql("update cse_runs set owner = 'ben@host:1:aa' where signature = 'his'")
    assert main(["doctor", "--repair", "--yes", "--ledger", "l.db", "--storage", "."]) == 2
    said = capsys.readouterr()
    assert (
        said.err.startswith("cse: another's runs: user=ben has 1 of what would go; give --user anna") and not said.out
    )
    assert {row.state for row in ledger.runs()} == {"done"}
    repaired(capsys, "--yes", "--user", "anna")
    assert {row.signature: row.state for row in ledger.runs()} == {"hers": "lost", "his": "done"}
    repaired(capsys, "--yes", "--user", "ben")
    assert {row.state for row in ledger.runs()} == {"lost"}
