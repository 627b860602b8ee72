"""`cse ablate` with real training on real Ray: the full configuration is reused, each component is left out once."""

import re
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from tests.commands import printed

SPACE = """version: 1
id: mine
method: esimcse
seeds: 2
set:
  train.encoder: words-l1-h64
  train.corpus: generated
  train.dev: "generated_dev:40"
  train.examples: 32
  train.batch_size: 8
  train.evaluations: 2
  train.learning_rate: 1.0e-3
space:
  method.dup_rate: {grid: [0.3]}
"""
PARTS = ["momentum queue", "repetition", "dropout noise", "MLP on [CLS]"]


@pytest.mark.slow
@pytest.mark.timeout(500)
def test_an_ablation_is_trained_told_and_not_trained_again(
    ray_cluster: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(SPACE, encoding="utf8")
    where = ("--storage", str(tmp_path / "results"), "--ledger", str(tmp_path / "results" / "ledger.db"))
    printed(capsys, "run", "mine.yaml", *where, "--yes")

    first = printed(capsys, "ablate", "mine", *where, "--yes")
    assert "10 runs: 2 already in the ledger, 8 to run" in first and "8 done, 0 failed, 0 stopped, 2 reused" in first
    rows = {line.split("  ")[0]: line for line in first.splitlines() if line.startswith(("full ", "w/o "))}
    assert sorted(rows) == sorted(["full", *(f"w/o {part}" for part in PARTS)])
    assert all(re.search(r" 2  +\d\d\.\d\d", line) for line in rows.values()), "two seeds and a mean in each row"

    values = {round(run.best or 0.0, 6) for run in Ledger.open(tmp_path / "results" / "ledger.db").runs()}
    assert len(values) > 5, "what is left out changes what is learnt"
    second = printed(capsys, "ablate", "mine", *where, "--yes")
    assert "10/10 already in the ledger, 0 run" in second
    assert first.partition("generated_dev:40")[2] in second
