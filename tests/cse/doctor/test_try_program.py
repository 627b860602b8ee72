"""`cse doctor --try`: a script runs up to its first report, twice by one seed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cse.cli.app import main
from cse_train.plugins import registry

SPACE = """
version: 1
id: mine
trainer: {script: mine.py, score: {name: loss, direction: min}}
seeds: 1
space: {rate: {grid: [0.5, 0.25]}}
"""
PROGRAM = """
import random, sys
import cse

open("reports.txt", "a").write("begun ")
drawn = random.Random({seed}).random()
cse.report(1, score=drawn, fraction=0.25)
cse.report(2, score=drawn, fraction=0.5)
open("reports.txt", "a").write("went on ")
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(SPACE, encoding="utf8")
    yield
    registry.forget()


def _try(program: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    Path("mine.py").write_text(program, encoding="utf8")
    code = main(["doctor", "mine.yaml", "--try"])
    lines = capsys.readouterr().out.splitlines()
    assert not {"encoder", "data"} & {line.split()[1] for line in lines}, "a program has neither of ours"
    return code, [line for line in lines if line.split()[1] == "try"]


def test_a_script_that_sets_its_seed_gives_one_score_and_stops_at_its_first_report(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, lines = _try(PROGRAM.format(seed="int(sys.argv[sys.argv.index('--seed') + 1])"), capsys)
    assert (code, len(lines)) == (0, 1) and "rate=0.5 seed 0: loss=0.844422 after" in lines[0]
    assert lines[0].endswith("s, 25% of the run; the same seed twice gave one score")
    # A first report is the best one, whose model is saved before the next report ends the run.
    assert Path("reports.txt").read_text() == "begun begun "


def test_a_script_that_ignores_its_seed_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = _try(PROGRAM.format(seed=""), capsys)
    assert (code, len(lines)) == (0, 2) and lines[1].startswith("note")
    assert "your script does not set its seed: the same seed gave 0." in lines[1]


def test_a_script_that_breaks_stops_a_sweep_with_its_own_line(capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = _try("raise KeyError('corpus')\n", capsys)
    assert (code, len(lines)) == (2, 1)
    assert lines[0].startswith("stop") and "KeyError: 'corpus' (mine.py:1 in <module>)" in lines[0]


@pytest.mark.parametrize("words", [["doctor", "--try"], ["doctor", "E7", "--try"]])
def test_there_must_be_a_script_to_try(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert main(words) == 2
    assert "; " in (told := capsys.readouterr().err) and "--try runs a script" in told
