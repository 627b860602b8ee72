"""Looks at a table on real Ray: slots train what the first look lacks, and a second call starts no cluster."""

import contextlib
import json
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from cluster.runtime import start as clusters
from cse.cli.app import main
from tests.commands import printed
from tests.cse.cli.sweeps.pretended import refuse_cluster

SUITE = "generated_dev:40"
SPACE = """version: 1
id: LR
title: two learning rates
method: simcse
evaluate: ["generated_dev:40"]
set:
  train.encoder: words-l1-h64
  train.corpus: generated
  train.dev: "generated_dev:40"
  train.examples: 32
  train.batch_size: 8
  train.evaluations: 2
space:
  train.learning_rate: {grid: [1e-9, 2e-9]}
paper:
  citation: "A and B"
  table: "Table 1"
  source: none.txt
  metric: "Spearman x 100"
  columns: ["generated_dev:40"]
  rows:
    - {key: {train.learning_rate: 1e-9}, cells: {"generated_dev:40": 80.0}}
    - {key: {train.learning_rate: 2e-9}, cells: {"generated_dev:40": 84.0}}
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_rows_without_signal_are_looked_at_once_and_a_second_call_starts_no_cluster(
    ray_cluster: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rates that train nothing: three seeds show it, and no further one is asked for."""
    monkeypatch.chdir(tmp_path)
    Path("LR.yaml").write_text(SPACE, encoding="utf8")
    command = ["reproduce", "LR.yaml", "--until", "decided", "--max-seeds", "5", "--yes", "--out", "tables"]
    assert main(command) == 0
    said = capsys.readouterr()
    assert "6 runs for the next look: 0 already in the ledger; at most 10 in all" in said.out
    page = json.loads(Path("tables/LR.json").read_text(encoding="utf8"))
    assert [verdict["word"] for verdict in page["verdicts"]] == ["reference", "no signal"]
    with contextlib.closing(Ledger.open("sqlite:///results/ledger.db")) as ledger:
        runs = ledger.runs()
        assert sorted((run.state, run.seed) for run in runs) == [("done", seed) for seed in range(3) for _ in range(2)]
        assert {score.suite for score in ledger.scores(run.signature for run in runs)} == {SUITE}

    before = Path("tables/LR.md").read_bytes()
    monkeypatch.setattr(clusters, "ray_cluster", refuse_cluster)
    assert "6/6 already in the ledger, 0 run" in printed(capsys, *command)
    assert Path("tables/LR.md").read_bytes() == before
