"""`cse export`: the run's lineage goes into the card, and both scores are printed."""

from pathlib import Path

import pytest
import torch

from analysis.answers.lookup import lineage_of
from analysis.ledger import Ledger
from analysis.sweep_spec import SweepSpec
from cse_train.checkpoint import save_best
from cse_train.config import parse_run
from cse_train.encoder.backbone import load_backbone
from cse_train.methods import simcse
from tests.commands import printed
from tests.run_values import book_run, score_of

FLAT = {"method": "simcse", "train.encoder": "words-l1-h64", "train.dev": "generated_dev:20", "method.pooler": "mean"}

OWN_SPACE = """version: 1
id: own
method: simcse
seeds: 1
dev: mydev.csv
set: {train.encoder: words-l1-h64, train.corpus: generated}
space: {method.temperature: {grid: [0.05]}}
"""


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Seeds 0 and 1 of one cell and a run of another, all in sweep "mine"; seed 0's checkpoint is real."""
    opened = Ledger.open(tmp_path / "ledger.db", create=True)
    opened.record_sweep("mine", SweepSpec({}))
    for signature, seed, cell, best in (("aaaaaa", 0, 1, 60.0), ("bbbbbb", 1, 1, 62.0), ("cccccc", 0, 2, 59.0)):
        opened.link("mine", [(signature, {"method.temperature": cell}, seed)])
        told = {"identity": {"corpus": "c0ffee"}, "provenance": {"commit": f"of {signature}"}}
        ended = {"examples": 64, "best": best, "best_examples": 32, "folder": tmp_path / signature}
        book_run(opened, signature, FLAT, seed=seed, **told, **ended)
    opened.add_score("aaaaaa", score_of("sts_test", 58.5, {"pooler": "mean"}))
    run = parse_run(FLAT)
    with torch.random.fork_rng():
        model = simcse.SimCSE.build(run.options, load_backbone(run.train.encoder))
    save_best(tmp_path / "aaaaaa", run, model, {"best": 60.0, "best_examples": 32})
    return opened


def test_the_lineage_of_a_run(ledger: Ledger, tmp_path: Path) -> None:
    found = lineage_of(tmp_path / "aaaaaa", ledger)
    assert (found.signature, list(found.sweeps), found.cell) == ("aaaaaa", ["mine"], {"method.temperature": 1})
    assert found.seeds == {0: 60.0, 1: 62.0}, "the other cell's run is no seed of this one"
    assert found.hashes == {"corpus": "c0ffee"} and found.provenance == {"commit": "of aaaaaa"}
    assert found.scores == [("sts_test", 58.5, {"pooler": "mean"})]


@pytest.mark.parametrize("ledger_there", [True, False])
def test_a_run_outside_the_ledger_has_none(ledger: Ledger, tmp_path: Path, ledger_there: bool) -> None:
    found = lineage_of(tmp_path / "elsewhere", ledger if ledger_there else None)
    assert found.signature is None and not found.sweeps and not found.scores


def test_the_command_prints_both_scores_and_writes_the_card(
    ledger: Ledger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--ledger", str(tmp_path / "ledger.db"), "--to", str(tmp_path / "out"), "--format", "hf")
    wrote, scores = printed(capsys, "export", str(tmp_path / "aaaaaa" / "best"), *where).splitlines()
    assert wrote == f"wrote {tmp_path / 'out'} (hf)"
    assert scores.startswith("generated_dev:20: checkpoint ") and ", reloaded with transformers " in scores
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf8")
    assert "| run signature | aaaaaa |" in card and "mean 61.00" in card and "| sts_test | 58.50 |" in card


def test_a_run_is_scored_on_its_own_dev_file(
    ledger: Ledger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It said that the file is not here, and scored generated pairs, wherever the file lay."""
    pairs = [(f"a red house {n}", f"a {'red' if n % 2 else 'blue'} house {n}", n % 5) for n in range(20)]
    rows = [f"{first},{second},{score}" for first, second, score in pairs]
    (tmp_path / "mydev.csv").write_text("\n".join(["sentence1,sentence2,score", *rows]), encoding="utf8")
    (tmp_path / "own.yaml").write_text(OWN_SPACE, encoding="utf8")
    run = parse_run(FLAT | {"train.dev": "mydev"})
    ledger.record_sweep("own", SweepSpec({"space": "own", "file": str(tmp_path / "own.yaml")}))
    ledger.link("own", [("dddddd", {"method.temperature": 0.05}, 0)])
    ended = {"examples": 64, "best": 60.0, "best_examples": 32, "folder": tmp_path / "dddddd"}
    book_run(ledger, "dddddd", run.flat(), **ended)
    model = simcse.SimCSE.build(run.options, load_backbone(run.train.encoder))
    save_best(tmp_path / "dddddd", run, model, {"best": 60.0, "best_examples": 32})
    where = ("--ledger", str(tmp_path / "ledger.db"), "--to", str(tmp_path / "out"), "--format", "hf")
    said = printed(capsys, "export", str(tmp_path / "dddddd"), *where)
    assert "mydev: checkpoint " in said and "not here" not in said
