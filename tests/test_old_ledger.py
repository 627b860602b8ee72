"""Ledgers that version 0.1.0 wrote (commit c40a08e): every run is recognised, and their tables print digit by digit."""

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from cse.cli.app import main
from cse_train.config import complete, parse_run
from search_spaces.identity.signature import signature

OLD = Path(__file__).parent / "ledger_0_1_0"
E7 = "E7 train.evaluations=2 train.examples=640"
"""A sweep with two seeds of each cell, recorded at profile small, which was wiki_small then."""
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


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command prints."""
    assert main(words) == 0
    return capsys.readouterr().out


def rows(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """The lines of the tables that a command prints."""
    return [line for line in said(capsys, *words).splitlines() if line.startswith("|")]


@pytest.mark.parametrize(("name", "sweep"), [("e7", E7), ("demo", "demo")])
def test_tables_of_an_old_ledger_are_equal_to_the_digit(
    capsys: pytest.CaptureFixture[str], lay: Lay, name: str, sweep: str
) -> None:
    lay(name)
    assert rows(capsys, "table", sweep) == (OLD / f"{name}.md").read_text(encoding="utf8").splitlines()


@pytest.mark.parametrize("name", ["e7", "demo"])
def test_every_old_run_has_the_signature_that_today_s_code_gives_it(lay: Lay, name: str) -> None:
    """By its own inputs: its encoder is shipped no more. The profile names torch's AdamW, with which 0.1.0 trained."""
    lay(name)
    runs = Ledger.open(Path("results/ledger.db")).runs()
    assert len(runs) == {"e7": 16, "demo": 12}[name]
    for row in runs:
        flat = complete({"method": row.method, **row.config})
        assert signature(parse_run(flat), row.identity) == row.signature
        released = flat | {"train.adamw": "transformers"}
        assert signature(parse_run(released), row.identity) != row.signature


@pytest.mark.parametrize(
    ("name", "sweep", "cell", "best"),
    [("e7", E7, "dup_rate=0.08", "51.21"), ("demo", "demo", "method=simcse,learning_rate=3e-05", "49.93")],
)
def test_every_command_that_reads_answers_on_an_old_ledger(
    capsys: pytest.CaptureFixture[str], lay: Lay, name: str, sweep: str, cell: str, best: str
) -> None:
    lay(name)
    assert sweep in said(capsys, "ls") and best in said(capsys, "best", sweep)
    assert said(capsys, "trials", sweep).count("done") == {"e7": 16, "demo": 12}[name]
    assert "commit c40a08e06b10" in said(capsys, "explain", sweep, "--cell", cell)


def test_the_demo_of_today_is_another_sweep(capsys: pytest.CaptureFixture[str], lay: Lay) -> None:
    """Its encoder is another. The table of its name is that of the old sweep until it has run."""
    lay("demo")
    assert "12 runs, 12 unique: 0 done, 12 to run" in said(capsys, "plan", "demo")
