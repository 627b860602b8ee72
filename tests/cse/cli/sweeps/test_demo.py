"""The whole way on real Ray: 2-worker groups, ledger, table, figure, exported model; and again without a cluster."""

import json
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from cluster.runtime import start as clusters
from cse.cli.app import main
from cse.cli.sweeps.demo import run_demo
from tests.cse.cli.sweeps.pretended import refuse_cluster

TINY = {
    "train.encoder": "words-l2-h128",
    "train.dev": "generated_dev:40",
    "train.examples": 32,
    "train.batch_size": 8,
}
SPACE = """version: 1
id: mine
method: simcse
seeds: 1
set:
  train.encoder: words-l2-h128
  train.corpus: generated
  train.dev: "generated_dev:40"
  train.examples: 32
  train.batch_size: 8
  train.evaluations: 2
space:
  train.learning_rate: {grid: [1e-4, 1e30]}
"""


@pytest.mark.timeout(300)
def test_the_demo_and_its_second_call(
    ray_cluster: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    demo = (tmp_path, str(tmp_path / "ledger.db"), 2, TINY)
    assert run_demo(*demo) == 0
    first = capsys.readouterr().out
    assert "12 runs: 0 already in the ledger, 12 to run" in first
    assert "12 done, 0 failed" in first
    for row in ("untrained [CLS]", "word counts", "idf bag of words", "esimcse", "Small scale"):
        assert row in first
    assert (tmp_path / "demo.png").stat().st_size > 1000
    assert json.loads((tmp_path / "demo-model" / "modules.json").read_text(encoding="utf8"))

    monkeypatch.setattr(clusters, "ray_cluster", refuse_cluster)
    assert run_demo(*demo) == 0
    second = capsys.readouterr().out
    assert "12/12 already in the ledger, 0 run" in second
    assert [line for line in second.splitlines() if line.startswith("| ")] == [
        line for line in first.splitlines() if line.startswith("| ")
    ]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_diverging_run_fails_alone_and_names_its_log(
    ray_cluster: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.yaml").write_text(SPACE, encoding="utf8")
    where = ("--storage", str(tmp_path), "--ledger", str(tmp_path / "ledger.db"), "--max-concurrent", "1")
    assert main(["run", str(tmp_path / "mine.yaml"), *where]) == 1
    said = capsys.readouterr()
    assert "1 done, 1 failed" in said.out
    (line,) = [line for line in said.err.splitlines() if line.startswith("cse: failed: ")]
    assert "lower train.learning_rate" in line and ("loss is nan" in line or "not finite" in line)
    assert Path(line.rpartition("log ")[2], "rank0.log").is_file()
    states = sorted(run.state for run in Ledger.open(tmp_path / "ledger.db").runs())
    assert states == ["done", "failed"]
