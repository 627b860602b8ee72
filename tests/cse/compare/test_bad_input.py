"""Imported runs from which a gate cannot learn: one seed a side, fifty rows of one value, no seeds, no settings."""

import json
from pathlib import Path

import pytest

from cse.cli.app import main
from tests.commands import printed


@pytest.fixture
def take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    texts = {
        "one": "model,seed,acc\na,0,0.8\nb,0,0.9\n",
        "same": "model,seed,acc\n" + "".join(f"{model},{seed},0.8\n" for model in "ab" for seed in range(25)),
        "old": "seed,acc\n0,0.70\n1,0.71\n2,0.72\n",
        "new": "seed,acc\n0,0.80\n1,0.81\n2,0.825\n",
        "unseeded": "model,acc\n" + "".join(f"{model},{0.8 + i / 1000}\n" for model in "ab" for i in range(3)),
    }
    for name, text in texts.items():
        Path(f"{name}.csv").write_text(text, encoding="utf8")
        assert main(["import", "csv", f"{name}.csv", "--as", name, "--metric", "acc:max:0-1"]) == 0
    capsys.readouterr()


@pytest.mark.parametrize(
    ("name", "line", "more", "code"),
    [
        (
            "one",
            "more-seeds 2: acc -0.1000 (no interval: undecided, one seed on a side: what other seeds would give is not "
            "covered)\n2 more seeds of both would decide it: 4 runs, time unknown, by the runs of this ledger\n",
            2,
            4,
        ),
        (
            "same",
            "seeds do nothing: acc +0.0000 (no interval: seeds do nothing, all 25 seeds of each side give one score, "
            "so that more of them tell nothing: see that the seed reaches training; --over sentences judges these "
            "models as they are)\nmore seeds would not decide it\n",
            None,
            5,
        ),
    ],
)
def test_a_gate_that_learns_nothing_says_why(
    capsys: pytest.CaptureFixture[str], take: None, name: str, line: str, more: int | None, code: int
) -> None:
    argv = ["gate", f"{name}:model=a", "--against", f"{name}:model=b"]
    control = "this loop controls the false discovery rate at 5%; the next level is 1.5%, of 5% that are left\n"
    assert printed(capsys, *argv, "--n-more", code=code) == line + control
    assert json.loads(printed(capsys, *argv, "--format", "json", code=code))["more_seeds"] == more


def test_an_import_has_no_sentences_to_be_judged_over(capsys: pytest.CaptureFixture[str], take: None) -> None:
    for command in (["gate", "new", "--against", "old"], ["compare", "new", "old"]):
        assert main([*command, "--over", "sentences"]) == 2
        assert capsys.readouterr().err == (
            "cse: no sentences: over=sentences of acc, of which both sides keep no single pair or query; score both "
            "here (--suite), or leave --over out\n"
        )


def test_rows_without_seeds_are_numbered_and_none_is_common(capsys: pytest.CaptureFixture[str], take: None) -> None:
    made = json.loads(printed(capsys, "gate", "unseeded:model=a", "--against", "unseeded:model=b", "--format", "json"))
    assert (made["verdict"], made["columns"][0]["common"], made["columns"][0]["A"]["n"]) == ("tie", 0, 3)


def test_two_files_without_settings_are_two_models(capsys: pytest.CaptureFixture[str], take: None) -> None:
    """Nothing in them says in what they differ, and they are not one configuration with other seeds."""
    assert printed(capsys, "gate", "new", "--against", "old").startswith("better: acc +0.1017 (")


def test_a_range_that_a_later_import_declares_counts(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "a0,a,0,0.80\na1,a,1,0.81\na2,a,2,0.805\nb0,b,0,0.90\nb1,b,1,0.915\nb2,b,2,0.908\n"
    Path("r.csv").write_text("id,model,seed,reward\n" + rows, encoding="utf8")
    for words in (["r"], ["r1", "--scale", "1"]):
        assert main(["import", "wandb", "r.csv", "--rename", "model=model", "--score", "reward", "--as", *words]) == 0
    capsys.readouterr()
    assert "no tie is told" not in printed(capsys, "gate", "r1:model=a", "--against", "r1:model=b", code=3)
