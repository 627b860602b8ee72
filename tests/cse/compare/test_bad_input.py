"""Imported runs from which a gate cannot learn: one seed a side, fifty rows of one value, no seeds at all."""

import json
from pathlib import Path

import pytest

from cse.cli.app import main


@pytest.fixture
def take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    texts = {
        "one": "model,seed,acc\na,0,0.8\nb,0,0.9\n",
        "same": "model,seed,acc\n" + "".join(f"{model},{seed},0.8\n" for model in "ab" for seed in range(25)),
        "unseeded": "model,acc\n" + "".join(f"{model},{0.8 + i / 1000}\n" for model in "ab" for i in range(3)),
    }
    for name, text in texts.items():
        Path(f"{name}.csv").write_text(text, encoding="utf8")
        assert main(["import", "csv", f"{name}.csv", "--as", name, "--metric", "acc:max:0-1"]) == 0
    capsys.readouterr()


@pytest.mark.parametrize(
    ("name", "line", "more"),
    [
        (
            "one",
            "more-seeds 2: acc -0.1000 (no interval: undecided, one seed on a side: what other seeds would give is not "
            "covered)\n2 more seeds of both would decide it: 4 runs, time unknown, by the runs of this ledger\n",
            2,
        ),
        (
            "same",
            "more-seeds over 200: acc +0.0000 (no interval: undecided, no two seeds differ on either side, so that no "
            "seed tells anything)\nover 200 more seeds, or none, would decide it: look for another candidate\n",
            None,
        ),
    ],
)
def test_a_gate_that_learns_nothing_says_why(
    capsys: pytest.CaptureFixture[str], take: None, name: str, line: str, more: int | None
) -> None:
    argv = ["gate", f"{name}:model=a", "--against", f"{name}:model=b"]
    assert main([*argv, "--n-more"]) == 4
    assert capsys.readouterr().out == line
    assert main([*argv, "--format", "json"]) == 4
    assert json.loads(capsys.readouterr().out)["more_seeds"] == more


def test_rows_without_seeds_are_numbered_and_none_is_common(capsys: pytest.CaptureFixture[str], take: None) -> None:
    assert main(["gate", "unseeded:model=a", "--against", "unseeded:model=b", "--format", "json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["verdict"], made["columns"][0]["common"], made["columns"][0]["A"]["n"]) == ("tie", 0, 3)
