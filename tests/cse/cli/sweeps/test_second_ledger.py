"""A new ledger on a used storage: by the advice for a damaged one, and two of them at once."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from cluster.runtime import start as clusters
from cluster.runtime.options import SweepOptions
from cse.cli.app import main
from cse.cli.options import data_paths
from cse.experiments import request as sweeping
from search_spaces.catalog import load_space
from search_spaces.cells import resolve
from tests.cluster.sweep.list_driver import Driver
from tests.cluster.sweep.test_run_folders import trained
from tests.commands import printed
from tests.cse.cli.sweeps.pretended import refuse_cluster

SPACE = """version: 1
id: tiny
method: simcse
seeds: 2
evaluate: []
set:
  train.encoder: words-l1-h64
  train.corpus: generated
  train.dev: "generated_dev:40"
  train.examples: 64
  train.batch_size: 16
  train.evaluations: 2
space:
  method.temperature: {grid: [0.05]}
"""


@pytest.fixture
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text(SPACE, encoding="utf8")
    return tmp_path


@pytest.fixture
def used(somewhere: Path) -> Path:
    """The folder of a user whose `one.db` has a finished sweep in `results`."""
    storage = somewhere / "results"
    storage.mkdir()
    request = sweeping.Request(
        resolved=resolve(load_space("tiny.yaml"), None, {}),
        seeds=(0, 1),
        paths=data_paths(None, None, None),
        ledger=str(somewhere / "one.db"),
        options=SweepOptions(storage=storage),
    )
    ledger = Ledger.open(request.ledger)
    driver = Driver(storage, list(sweeping.work_of([request], ledger).runs), "one", file="../one.db")
    for _ in range(2):
        trained(driver)
    driver.ledger.close()
    ledger.close()
    return somewhere


def table(ledger: str, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    return printed(capsys, "table", "tiny", "--ledger", ledger)


def test_the_advice_for_a_damaged_ledger_leads_to_the_same_table_and_trains_nothing(
    used: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "ray_cluster", refuse_cluster)
    assert "2/2 already in the ledger, 0 run" in printed(capsys, "run", "tiny.yaml", "--ledger", "one.db")
    before = table("one.db", capsys)
    shutil.copy("one.db", "copy.db")
    damaged = bytearray(Path("one.db").read_bytes())
    damaged[4096:] = bytes((byte * 7 + 13) % 256 for byte in damaged[4096:])
    Path("one.db").write_bytes(damaged)

    assert main(["run", "tiny.yaml", "--ledger", "one.db"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("restore a copy or use another --ledger"), line
    for ledger, word in (("another.db", "0 done, 0 failed, 0 stopped, 2 reused"), ("copy.db", "2/2 already")):
        assert word in printed(capsys, "run", "tiny.yaml", "--ledger", ledger)
        assert table(ledger, capsys) == before
    folders = sorted(str(path.relative_to(used)) for path in Path("results", "runs").resolve().glob("*/*"))
    assert [re.sub("/[0-9a-f]{24}/", "/", folder) for folder in folders] == 2 * [
        "results/runs/final-1",
        "results/runs/final-1-2",
    ]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_ledgers_at_once_both_finish_and_agree(somewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "cse", "run", "tiny.yaml", "--max-concurrent", "1", "--ledger"]
    both = [
        subprocess.Popen(
            [*command, ledger], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for ledger in ("one.db", "two.db")
    ]
    said = [driver.communicate(timeout=500)[0] for driver in both]
    assert [driver.returncode for driver in both] == [0, 0], said
    assert all("0 failed" in text and "corrupt" not in text for text in said), said
    for ledger in ("one.db", "two.db"):
        rows = Ledger.open(ledger).runs()
        assert [(row.state, row.attempt) for row in rows] == [("done", 1)] * 2
        assert all(Path(row.folder or "", "best", "model.safetensors").is_file() for row in rows)
    assert table("one.db", capsys) == table("two.db", capsys)
