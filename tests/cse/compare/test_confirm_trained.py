"""`cse confirm` with real training on real Ray: a search's pick against its reference, on seeds of their own."""

import json
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from cse.cli.app import main

SPACE = """version: 1
id: mine
method: simcse
seeds: 1
set: {train.encoder: words-l1-h64, train.corpus: generated, train.dev: "generated_dev:40", train.examples: 32, train.batch_size: 8, train.evaluations: 2}
space: {train.learning_rate: {grid: [1.0e-5, 1.0e-3]}}
"""  # noqa: E501


@pytest.mark.slow
@pytest.mark.timeout(500)
def test_a_pick_is_confirmed_and_not_trained_again(
    ray_cluster: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(SPACE, encoding="utf8")
    where = ("--storage", str(tmp_path / "results"), "--ledger", str(tmp_path / "results" / "ledger.db"))
    assert main(["run", "mine.yaml", *where, "--yes"]) == 0
    ledger = Ledger.open(tmp_path / "results" / "ledger.db")
    picked = max(ledger.runs(), key=lambda run: run.best or 0.0).config["train.learning_rate"]
    (other,) = {1e-5, 1e-3} - {picked}
    capsys.readouterr()

    asked = ["confirm", "mine", "--against", f"mine:train.learning_rate={other}", "--seeds", "2", *where]
    code = main([*asked, "--format", "json"])
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert code == document["exit_code"] and "4 done, 0 failed, 0 stopped, 0 reused" in said.err
    runs = {(run.config["train.learning_rate"], run.seed): run.best for run in ledger.runs(sweep=document["sweep"])}
    assert runs.keys() == {(rate, seed) for rate in (1e-5, 1e-3) for seed in (1, 2)}
    (column,) = document["columns"]
    gain = sum((runs[picked, seed] or 0.0) - (runs[other, seed] or 0.0) for seed in (1, 2)) / 2
    assert column["difference"] == pytest.approx(gain) and column["column"] == "generated_dev:40"

    assert main(asked) == code
    again = capsys.readouterr().out
    assert "4/4 already in the ledger, 0 run" in again and len(ledger.runs()) == 6
