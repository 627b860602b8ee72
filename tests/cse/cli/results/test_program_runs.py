"""Runs of a user's own program in the lists and lines of a sweep: the score as the program reports it."""

import contextlib
import errno
import functools
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from cluster.monitor.metrics import Tally
from cluster.sweep.events import SweepEvent
from cse.cli.app import main
from cse_train import files
from cse_train.export import export
from cse_train.files import write_digests
from cse_train.plugins import registry
from search_spaces.cells import resolve
from search_spaces.parse import parse_file
from tests import site_ledger

SPACE = """
version: 1
id: mine
trainer:
  function: "train.py:train"
  score: {name: dev_loss, direction: min}
seeds: 2
space:
  lr: {grid: [1, 2]}
"""
LOSSES = {1: 0.25, 2: 0.5}


@pytest.fixture
def sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A finished sweep of losses; the folder of its first run, which saved no model."""
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("def train(trial):\n    pass\n", encoding="utf8")
    Path("mine.yaml").write_text(SPACE, encoding="utf8")
    Path("results").mkdir()
    with contextlib.closing(Ledger.open(Path("results/ledger.db"))) as ledger:
        resolved = resolve(parse_file(Path("mine.yaml")))
        site_ledger.train(ledger, resolved, 2, lambda run: -LOSSES[int(run.cell["lr"])] - 0.01 * run.seed)
    registry.forget()
    (tmp_path / "run" / "last").mkdir(parents=True)
    (tmp_path / "run" / "last" / "points.jsonl").write_text("", encoding="utf8")
    yield tmp_path / "run"
    registry.forget()


def test_trials_tell_the_loss_and_the_share_that_is_done(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["trials", "mine"], ["trials"]):
        assert main(words) == 0
        out = capsys.readouterr().out
        assert all(f" {loss}00 " in out for loss in ("0.25", "0.26", "0.50", "0.51")) and "-0." not in out
        assert out.count("100%") == 4 and "1000" not in out and "1,000" not in out
    assert main(["trials", "mine", "--format", "json"]) == 0
    assert sorted(row["best"] for row in json.loads(capsys.readouterr().out)["rows"]) == [-0.51, -0.5, -0.26, -0.25]


def test_status_tells_the_least_loss_as_the_best(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "mine"]) == 0
    assert "  best run 0.2500  lr=1 seed 0" in capsys.readouterr().out


def test_best_tells_the_least_loss_as_it_is(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["best", "mine"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert out.startswith("the lower dev_loss is the better one cell n mean sd best")
    assert "lr=1 2 0.2550 0.0071 0.2500" in out and "lr=2 2 0.5050 0.0071 0.5000" in out
    assert "pick: lr=1 (lowest mean dev score over seeds of 2 cells, 0.2550); run" in out
    assert "expected best of random cells: 0.3800 of 1, 0.2550 of 2" in out
    assert "optimism of its best run: 0.2500 against 0.2600 of its other seeds" in out


def test_the_line_of_progress_tells_the_least_loss() -> None:
    tally = Tally(2)
    for signature, best in (("a", -0.5), ("b", -0.25), ("c", -0.75)):
        tally.add(SweepEvent(kind="done", signature=signature, best=best, is_turned=True), 0.0)
    assert "best run 0.25" in tally.summary(0.0) and tally.best == -0.25


@pytest.mark.parametrize("words", [["export", "run", "--to", "out"], ["eval", "run", "--suite", "sts_dev"]])
def test_a_run_that_saved_no_model_is_told_in_one_line(
    sweep: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert main([str(sweep) if word == "run" else word for word in words]) == 2
    told = capsys.readouterr().err
    assert "no model: run=" in told and "its program saved none" in told and "safetensors" not in told
    assert not Path("out").exists()


def test_a_model_that_was_deleted_is_told_apart_from_one_that_was_never_saved(
    sweep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (sweep / "best").mkdir()
    (sweep / "best" / "model.pt").write_text("weights", encoding="utf8")
    write_digests(sweep)
    shutil.rmtree(sweep / "best")
    assert main(["export", str(sweep), "--to", "out"]) == 2
    told = capsys.readouterr().err
    assert "its program's model was deleted; cse doctor --repair has it trained again" in told
    assert "saved none" not in told


def test_export_to_a_full_disk_names_the_disk_and_the_file(
    sweep: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (sweep / "best").mkdir()
    (sweep / "best" / "cse_run.json").write_text("{}", encoding="utf8")

    def is_full(source: str, target: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), source)

    monkeypatch.setattr(export, "copy_tree", functools.partial(files.copy_tree, copy=is_full))
    assert main(["export", str(sweep), "--to", "out"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("cse: disk full: file=") and "/cse_run.json; free some space" in told
    assert not Path("out").exists()


def test_train_of_a_space_names_the_command_that_trains_it(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "mine.yaml"]) == 2
    assert "no method: method=mine.yaml is a space" in (told := capsys.readouterr().err)
    assert "cse run mine.yaml" in told and "unknown method" not in told
