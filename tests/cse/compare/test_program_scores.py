"""A program's own score, of which no suite of ours says its range or its better end, is judged as what it is."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from cse.cli.app import main
from cse_train.plugins import registry
from search_spaces.cells import resolve
from search_spaces.parse import parse_file
from tests import site_ledger

SPACE = """
version: 1
id: mine
trainer:
  function: "train.py:train"
  score: {name: NAME, direction: END}
seeds: 3
space:
  lr: {grid: [1, 2]}
"""
SCORES = {"dev_loss": ("min", 0.027, 0.043), "dev_accuracy": ("max", 0.60, 0.55), "reward": ("max", 0.60, 0.55)}
"""Name -> direction, and the means of lr=1, the better one, and of lr=2."""


@pytest.fixture(params=SCORES)
def name(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A score's name, in a folder with the runs of its sweep."""
    name: str = request.param
    end, *means = SCORES[name]
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("def train(trial):\n    pass\n", encoding="utf8")
    Path("mine.yaml").write_text(SPACE.replace("NAME", name).replace("END", end), encoding="utf8")
    Path("results").mkdir()
    sign = -1 if end == "min" else 1  # as its run reports it
    with contextlib.closing(Ledger.open(Path("results/ledger.db"))) as ledger:
        resolved = resolve(parse_file(Path("mine.yaml")))
        site_ledger.train(ledger, resolved, 3, lambda run: sign * (means[int(run.cell["lr"]) - 1] + 0.001 * run.seed))
    registry.forget()
    yield name
    registry.forget()


def test_the_gate_stops_a_regression(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gate", "mine:lr=2", "--against", "mine:lr=1"]) == 3
    assert capsys.readouterr().out.startswith(f"worse: {name} ")
    assert main(["gate", "mine:lr=1", "--against", "mine:lr=2"]) == 0
    assert capsys.readouterr().out.startswith(f"better: {name} ")


def test_numbers_are_shown_as_the_program_reports_them(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = f"{SCORES[name][1] + 0.001:.3f}"
    for words in (
        ["compare", "mine:lr=1", "mine:lr=2"],
        ["explain", "mine.yaml", "--cell", "lr=1"],
        ["table", "mine.yaml"],
    ):
        assert main([*words, "--format", "json"]) == 0
        out = capsys.readouterr().out
        assert f" {shown}" in out and f"-{shown}" not in out, words
