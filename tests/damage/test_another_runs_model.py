"""In a folder that the ledger knows as a run's, another run's model is neither scored, embedded with nor exported."""

import shutil
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from cse.cli.app import main
from cse_train import checkpoint
from cse_train.config import parse_run
from cse_train.encoder.backbone import load_backbone
from cse_train.methods.base import load_method
from tests.commands import refused
from tests.run_values import book_run

SETTINGS = {
    "method": "simcse",
    "train.encoder": "words-l1-h64",
    "method.pooler": "mean",
    "train.dev": "generated_dev:20",
}


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Two finished runs, by signature."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CSE_DATA", raising=False)
    ledger, run = Ledger.open("l.db"), parse_run(SETTINGS)
    model = load_method(run.method).build(run.options, load_backbone("words-l1-h64"))
    made = {}
    for signature in ("a" * 24, "b" * 24):
        made[signature] = folder = tmp_path / "runs" / signature / "final"
        checkpoint.save_best(folder, run, model, {"best": 1.0, "best_examples": 8, "examples": 8}, signature)
        book_run(ledger, signature, SETTINGS, examples=8, folder=folder)
    ledger.close()
    return made


def commands(run: str) -> list[list[str]]:
    Path("in.txt").write_text("a river\n", encoding="utf8")
    return [["eval", run, "--suite", "generated_dev:20"], ["embed", run, "in.txt", "--to", "o.npy"]]


def test_it_is_named(folders: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    own, other = folders["a" * 24], folders["b" * 24]
    for command in commands(str(own)):
        assert main([*command, "--ledger", "l.db"]) == 0
    capsys.readouterr()
    shutil.copy(other / checkpoint.BEST, own / checkpoint.BEST)
    for run in (str(own), str(own / "best"), "a" * 24):
        for command in [*commands(run), ["export", run, "--to", "model"]]:
            line = refused(capsys, *command, "--ledger", "l.db")
            assert (
                line.startswith("cse: corrupt checkpoint: ")
                and "it is of another run, bbbbbbbbbbbb and not aaa" in line
            )
            assert line.endswith("train the run again, one that a ledger has as done after cse doctor --repair")
    assert not Path("model").exists()
