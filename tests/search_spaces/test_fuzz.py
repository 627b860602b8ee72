"""Mutated spaces end in lines for a person or in a plan; and one kind of each that once did not."""

from pathlib import Path

import pytest

from benchmarks.faults.fuzz_spaces import fuzz, outcome
from cse.cli.app import main

HEAD = "version: 1\nid: T\nmethod: simcse\n"
GRID = "space: {train.learning_rate: {grid: [1.0e-4]}}\n"


def test_sixty_mutated_spaces() -> None:
    ends, broken = fuzz(60, seed=1)
    assert not broken, broken[0].why
    assert min(ends["refused"], ends["planned"]) > 0, "both ends are reached"


@pytest.mark.slow
def test_two_thousand_mutated_spaces() -> None:
    _, broken = fuzz(2000, seed=0)
    assert not broken, broken[0].why


def test_what_breaks_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.faults.fuzz_spaces.parse_file", lambda path: {}["absent"])
    assert outcome(HEAD, tmp_path / "s.yaml").startswith("KeyError")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (HEAD + "title: a\0b\n" + GRID, "control characters are not allowed"),
        ("version: 1\nid: T\nspace: 1.5\n", "wrong type: space=1.5; give a mapping"),
        (HEAD + f"seeds: {'9' * 17}\n" + GRID, "wrong type: seeds=99999999999999999; give a count of at most"),
        (HEAD + f"seeds: {'9' * 5000}\n" + GRID, "a number of 5000 digits"),
        (HEAD + f"set: {'[' * 5000}\n", "depth=unbounded"),
        (HEAD + "set: &own {train.examples: *own}\n" + GRID, "an alias; write the value out"),
        (HEAD + "set: !!python/object/apply:os.mkdir [ran]\n" + GRID, "could not determine a constructor"),
    ],
)
def test_hostile_yaml_is_told_in_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(text, encoding="utf8")
    assert main(["plan", "mine.yaml"]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert any(problem in line for line in lines) and all(line.startswith("cse: mine.yaml: ") for line in lines)
    assert not Path("ran").exists()
