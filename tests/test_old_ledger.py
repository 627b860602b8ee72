"""Ledgers that version 0.1.0 wrote (commit c40a08e): every run is recognised, and their tables print digit by digit."""

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cse.cli.app import main

OLD = Path(__file__).parent / "ledger_0_1_0"
E7 = ("E7", "--profile", "wiki_small", "--set", "train.examples=640", "--set", "train.evaluations=2")
"""Two seeds of each cell were trained."""
Lay = Callable[[str], None]


@pytest.fixture
def lay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lay:
    """Puts an old ledger where commands look for it; the folders of its runs are not here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CSE_DATA", raising=False)

    def put(name: str) -> None:
        results = tmp_path / "results"
        results.mkdir()
        with gzip.open(OLD / f"{name}.db.gz") as packed, (results / "ledger.db").open("wb") as ledger:
            shutil.copyfileobj(packed, ledger)
        shutil.copy(OLD / f"{name}_baselines.json", results / "baselines.json")

    return put


def rows(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """The lines of the tables that a command prints."""
    assert main(words) == 0
    return [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]


@pytest.mark.parametrize(("name", "words"), [("e7", E7), ("demo", ("demo",))])
def test_tables_of_an_old_ledger_are_equal_to_the_digit(
    capsys: pytest.CaptureFixture[str], lay: Lay, name: str, words: tuple[str, ...]
) -> None:
    lay(name)
    assert rows(capsys, "table", *words) == (OLD / f"{name}.md").read_text(encoding="utf8").splitlines()


def test_every_run_of_the_old_demo_is_done(capsys: pytest.CaptureFixture[str], lay: Lay) -> None:
    lay("demo")
    assert main(["plan", "demo"]) == 0
    assert "12 runs, 12 unique: 12 done, 0 to run" in capsys.readouterr().out


def test_every_run_of_an_old_table_is_done(capsys: pytest.CaptureFixture[str], lay: Lay, data_dir: Path) -> None:
    lay("e7")
    assert main(["plan", *E7, "--data", str(data_dir), "--seeds", "2"]) == 0
    assert "16 runs, 16 unique: 16 done, 0 to run" in capsys.readouterr().out


def test_no_old_run_stands_for_one_under_the_released_optimiser(capsys: pytest.CaptureFixture[str], lay: Lay) -> None:
    """The profile names torch's AdamW, with which version 0.1.0 trained."""
    lay("demo")
    assert main(["plan", "demo", "--set", "train.adamw=transformers"]) == 0
    assert "12 runs, 12 unique: 0 done, 12 to run" in capsys.readouterr().out
    assert main(["plan", "demo", "--set", "train.adamw=torch"]) == 0
    assert "12 runs, 12 unique: 12 done, 0 to run" in capsys.readouterr().out
