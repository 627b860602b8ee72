"""`cse table` of a sweep that has not ended: which cells lack seeds, and which lack an input."""

from pathlib import Path

import pytest

from analysis.answers import build
from analysis.ledger import Ledger
from analysis.sweep_spec import SweepSpec
from cse.cli.app import main
from search_spaces.catalog import catalog, load_space
from search_spaces.cells import resolve
from search_spaces.identity.signature import signature
from tests.run_values import book_run


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """E7 with both seeds of its first cell, one of its second, and nothing else."""
    monkeypatch.chdir(tmp_path)
    opened = Ledger.open(tmp_path / "results" / "ledger.db")
    for cell, seeds in zip(
        resolve(load_space("E7")).cells(),
        (2, 1),
        strict=False,
    ):
        for seed in range(seeds):
            run = cell.run(seed)
            name = signature(run, {})
            book_run(opened, name, run.flat(), seed=seed, best=60.0 + seed)
    return opened


def test_the_missing_cells_are_named(ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> None:
    ledger.record_sweep("E7", SweepSpec({"blocked": {"dup_rate=0.36": "missing data: train.corpus=wiki"}}))
    assert main(["table", "E7", "--seeds", "2", "--format", "json"]) == 0
    unfinished, incomplete = capsys.readouterr().err.splitlines()
    assert unfinished.startswith("cse: not finished: 7 of 8 cells have fewer than 2 seeds: dup_rate=0.12 1; ")
    assert unfinished.endswith("; dup_rate=0.36 0") and "dup_rate=0.08" not in unfinished
    assert incomplete == "cse: missing input: dup_rate=0.36: missing data: train.corpus=wiki"


def test_of_many_missing_cells_some_are_named(
    ledger: Ledger, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "CELLS_NAMED", 2)
    assert main(["table", "E7", "--seeds", "2", "--format", "json"]) == 0
    assert capsys.readouterr().err.endswith(": dup_rate=0.12 1; dup_rate=0.16 0 and 5 more\n")


def test_a_finished_row_is_not_told_of(ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table", "E7", "--seeds", "1", "--set", "method.dup_rate=0.12", "--format", "json"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("spec", "code", "said"),
    [({}, 0, ""), ({"set": 5}, 2, "spec.set=5 is no"), ({"profile": 7}, 2, "spec.profile=7 is no str")],
)
def test_a_sweep_whose_note_lacks_how_it_was_run(
    ledger: Ledger,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    spec: dict[str, object],
    code: int,
    said: str,
) -> None:
    ledger.record_sweep("mine", SweepSpec({"file": str(catalog()["E7"]), **spec}))
    assert main(["table", "mine", "--seeds", "1", "--format", "json"]) == code
    err = capsys.readouterr().err
    assert said in err + caplog.text and "internal error" not in err
