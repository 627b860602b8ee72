"""What is not alike in a table stands in its first three lines, and behind the word of a comparison."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from analysis.sweep_spec import SweepSpec
from cse.cli.app import main
from cse.cli.extend.new import method_text
from cse_train.plugins import registry
from search_spaces.catalog import load_space
from search_spaces.cells import resolve
from search_spaces.identity.signature import signature
from tests.run_values import book_run
from tests.sides import needs

SPACE = """
version: 1
id: both
plugins: [mine.py]
profile: unlike.yaml
seeds: 3
set: {train.corpus: generated, train.dev: generated_dev}
space: {method: {grid: [simcse, mine]}}
"""
PROFILE = """
version: 1
extends: small
methods:
  simcse: {train.learning_rate: 3.0e-5, method.pooler: cls}
  mine: {train.learning_rate: 1.0e-4}
"""
DIFFERENCES = ("method.pooler (cls: simcse; mean: mine)", "train.learning_rate (3e-05: simcse; 0.0001: mine)")
DIFFERENT_SIDES = "method.pooler (mean: A; cls: B), train.learning_rate (0.0001: A; 3e-05: B)"
INPUTS = {"dev": "d" * 64}


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """SimCSE beside a method of one's own with another pooler and rate, three done seeds each, in results/."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(method_text("mine").replace('] = "cls_train_only"', '] = "mean"'))
    Path("unlike.yaml").write_text(PROFILE)
    Path("both.yaml").write_text(SPACE)
    resolved = resolve(load_space("both.yaml"))
    ledger = Ledger.open(tmp_path / "results" / "ledger.db")
    ledger.record_sweep(
        "both", SweepSpec({"space": "both", "file": str(resolved.space.file), "profile": "unlike.yaml", "set": {}})
    )
    for cell, base in zip(resolved.cells(), (24.19, 52.19), strict=True):
        for seed in range(3):
            run = cell.run(seed)
            name = signature(run, INPUTS)
            book_run(ledger, name, run.flat(), seed=seed, identity=INPUTS, best=base + seed / 10)
            ledger.link("both", [(name, cell.key, seed)])
    yield "both.yaml"
    registry.forget()


def printed(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    capsys.readouterr()
    assert main(words) == code
    return capsys.readouterr().out


@pytest.mark.parametrize("form", ["md", "html", "tex", "json", "csv"])
def test_settings_that_differ_beside_the_axes_stand_in_the_first_lines(
    both: str, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    head = 3 + (form == "json")  # which begins with its version
    first = "\n".join(printed(capsys, "table", both, "--format", form).splitlines()[:head]).replace("\\_", "_")
    assert all(difference.partition(" ")[0] in first for difference in DIFFERENCES)
    assert form == "csv" or all(difference in first for difference in DIFFERENCES)


def test_json_has_every_setting_that_differs(both: str, capsys: pytest.CaptureFixture[str]) -> None:
    table = json.loads(printed(capsys, "table", both, "--format", "json"))
    pooler = next(setting for setting in table["settings"] if setting["name"] == "method.pooler")
    assert pooler["values"] == [
        {"value": "cls", "rows": [{"method": "simcse"}]},
        {"value": "mean", "rows": [{"method": "mine"}]},
    ]
    assert {"value": "no such setting", "rows": [{"method": "mine"}]} in next(
        setting["values"] for setting in table["settings"] if setting["name"] == "method.objective"
    )


@needs("compare")
def test_better_carries_the_count_of_what_nobody_asked_about(both: str, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = f"{both}:method=mine", f"{both}:method=simcse"
    line, differing, control, _ = printed(capsys, "gate", a, "--against", b).splitlines()
    assert line.startswith("better, 2 other settings differ: generated_dev +28.00")
    assert control.startswith("this loop controls the false discovery rate at 5%; the next level is ")
    named = f"A and B also differ in: {DIFFERENT_SIDES}; "
    assert re.fullmatch(r"\d+ options that not all have", differing.removeprefix(named))
    first = "\n".join(printed(capsys, "compare", a, b).splitlines()[:3])
    assert "method.pooler (mean: A; cls: B)" in first and "train.learning_rate" in first
    for form in ("html", "tex", "json", "md"):
        text = printed(capsys, "compare", a, b, "--format", form).replace("\\_", "_")
        assert "method.pooler (mean: A; cls: B)" in "\n".join(text.splitlines()[:3]), form
        assert form == "json" or "better, 2 other settings differ" in text
    facts = json.loads(printed(capsys, "gate", a, "--against", b, "--format", "json"))
    assert facts["verdict"] == "better" and facts["settings"][1]["name"] == "train.learning_rate"


@needs("compare")
def test_runs_that_differ_in_one_setting_are_compared_by_it(both: str, capsys: pytest.CaptureFixture[str]) -> None:
    runs = json.loads(printed(capsys, "trials", "both", "--format", "json"))["rows"]
    names = {
        method: ",".join(run["signature"] for run in runs if run["method"] == method) for method in ("simcse", "mine")
    }
    said = printed(capsys, "gate", names["mine"], "--against", names["simcse"])
    assert said.startswith("better, 2 other settings differ: ")
