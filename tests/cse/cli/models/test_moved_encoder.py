"""A finished run is scored, exported where its encoder has moved, never on the tokenizer of another."""

import json
import shutil
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from analysis.sweep_spec import SweepSpec
from cse.cli.app import main
from cse.experiments.held_out import score_run
from cse_train import checkpoint
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import load_backbone
from cse_train.methods.base import load_method
from search_spaces.identity.signature import identity, signature
from tests.commands import printed, refused
from tests.run_values import book_run
from tests.search_spaces.identity.test_moved_inputs import encoder

TEXT = """version: 1
id: mine
method: simcse
seeds: 1
set: {{train.encoder: {encoder}, train.corpus: generated, train.dev: "generated_dev:20", method.pooler: mean}}
space: {{train.learning_rate: {{grid: [1e-4]}}}}
"""
SUITE = "generated_dev:40"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished run of the ledger; its encoder lay at `old`."""
    monkeypatch.chdir(tmp_path)
    encoder(tmp_path / "old", "words-l1-h64")
    train = {"train.corpus": "generated", "train.dev": "generated_dev:20", "train.learning_rate": 1e-4}
    config = parse_run({"method": "simcse", "method.pooler": "mean", "train.encoder": str(tmp_path / "old"), **train})
    hashes = identity(config, DataPaths())
    model = load_method("simcse").build(config.options, load_backbone(config.train.encoder))
    folder, name = tmp_path / "runs" / "one", signature(config, hashes)
    checkpoint.save_best(folder, config, model, {"best": 1.0, "best_examples": 8}, name)
    ledger = Ledger.open(tmp_path / "results" / "ledger.db")
    book_run(ledger, name, config.flat(), method="simcse", identity=hashes, examples=8, folder=folder)
    return folder


def score(capsys: pytest.CaptureFixture[str], *argv: object) -> float:
    code = main(["eval", *map(str, argv), "--suite", SUITE, "--format", "json"])
    said = capsys.readouterr()
    assert code == 0, said.err
    return json.loads(said.out)["rows"][0]["value"]


def test_a_run_is_scored_and_exported_with_its_encoder_where_it_is_now(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = score(capsys, run)
    (tmp_path / "old").rename(tmp_path / "new")
    line = refused(capsys, "eval", run, "--suite", SUITE)
    assert f"at {tmp_path}/old, which is gone; cse run SPACE with its path of today (0 run), or give --encoder" in line
    assert score(capsys, run, "--encoder", "new") == before
    printed(capsys, "export", str(run), "--to", "exported", "--encoder", "new")
    assert score(capsys, "exported") == before


def test_another_encoder_is_refused_at_the_old_path_and_at_the_given_one(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of the same shape and tokenizer too: its configuration and prompts would count."""
    (tmp_path / "old").rename(tmp_path / "new")
    config = json.loads((encoder(tmp_path / "old", "words-l1-h64") / "config.json").read_text())
    (tmp_path / "old" / "config.json").write_text(json.dumps(config | {"layer_norm_eps": 0.5}))
    (tmp_path / "a.txt").write_text("A man plays.\n")
    assert "old, which holds another; cse run SPACE" in refused(capsys, "embed", run, "a.txt", "--to", "a.npy")
    assert "old, which holds another; cse run SPACE" in refused(capsys, "eval", run, "--suite", SUITE)
    assert "another encoder: encoder=" in refused(capsys, "eval", run, "--suite", SUITE, "--encoder", "old")
    assert "another encoder: encoder=" in refused(capsys, "eval", run, "--suite", SUITE, "--encoder", "words-l2-h128")


def test_scores_of_runs_take_the_path_that_a_later_sweep_names(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = score(capsys, run)
    (tmp_path / "old").rename(tmp_path / "new")
    (tmp_path / "space.yaml").write_text(TEXT.format(encoder="new"))
    ledger = Ledger.open(tmp_path / "results" / "ledger.db")
    (row,) = ledger.runs()
    ledger.record_sweep("mine", SweepSpec({"space": "mine", "file": str(tmp_path / "space.yaml"), "seeds": [0]}))
    ledger.link("mine", [(row.signature, {"train.learning_rate": 1e-4}, 0)])
    assert [each.value for each in score_run(row, ledger, [SUITE], DataPaths())] == [before]
    assert score(capsys, run) == before


def test_a_run_outside_a_ledger_says_which_folder_it_needs(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = score(capsys, run)
    (tmp_path / "old").rename(tmp_path / "new")
    shutil.copytree(run, tmp_path / "copy")
    line = refused(capsys, "eval", "copy", "--suite", SUITE)
    assert f"missing folder: train.encoder={tmp_path}/old" in line and "give --encoder FOLDER" in line
    assert score(capsys, "copy", "--encoder", "new") == before
    assert "no run: encoder=" in refused(capsys, "eval", "words-l1-h64", "--pooler", "mean", "--encoder", "new")
