"""`cse run` that is asked to end: one line, exit code 130, within 15 s, no process left, and no run lost."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from analysis.ledger import Ledger

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SPACE = """version: 1
id: tiny
method: simcse
seeds: 2
set:
  train.encoder: wiki-l1-h64
  train.corpus: generated
  train.dev: "generated_dev:40"
  train.examples: 16000
  train.batch_size: 16
  train.evaluations: 1000
space:
  method.temperature: {grid: [0.05]}
"""
COMMAND = "import sys; from cse.cli.app import main; sys.exit(main())"
END_S = 15.0
LINE = "cse: interrupted; finished runs are kept, the same command continues"


def start(folder: Path) -> subprocess.Popen[str]:
    (folder / "tiny.yaml").write_text(SPACE, encoding="utf8")
    argv = [sys.executable, "-c", COMMAND, "run", "tiny.yaml", "--workers", "1", "--max-concurrent", "1"]
    with (folder / "said").open("w") as said:
        return subprocess.Popen(argv, cwd=folder, stdout=said, stderr=said, text=True, start_new_session=True)


def wait_for(folder: Path, moment: str) -> None:
    """Until Ray starts, or until the first run has points."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        said = (folder / "said").read_text()
        if moment == "start" and "starts on this machine" in said:
            return time.sleep(1.5)  # some of Ray's processes are there
        file = folder / "results" / "ledger.db"
        if moment == "training" and "cluster " in said and file.exists():
            ledger = Ledger.open(file, create=False)
            points = [point for row in ledger.runs() for point in ledger.curve(row.signature)]
            ledger.close()
            if points:
                return None
        time.sleep(0.2)
    raise AssertionError((folder / "said").read_text())


ENDS = [
    ("training", signal.SIGHUP, "group"),
    ("training", signal.SIGUSR1, "single"),
    ("training", signal.SIGTERM, "twice"),
    ("start", signal.SIGTERM, "group"),
    ("start", signal.SIGQUIT, "group"),
]


@pytest.mark.parametrize(("moment", "name", "way"), ENDS)
def test_a_signal_ends_a_sweep_in_order(tmp_path: Path, moment: str, name: signal.Signals, way: str) -> None:
    """To the whole process group as `timeout` and a terminal send it; the group's signal ended Ray first."""
    driver = start(tmp_path)
    wait_for(tmp_path, moment)
    family = psutil.Process(driver.pid).children(recursive=True)
    assert family
    begun = time.monotonic()
    if way != "group":
        os.kill(driver.pid, name)
    if way != "single":
        os.killpg(driver.pid, name)
    code = driver.wait(60)
    took = time.monotonic() - begun
    said = (tmp_path / "said").read_text().splitlines()
    assert (code, said[-1]) == (130, LINE), said
    assert sum("interrupted" in line for line in said) == 1 and not any("GCS" in line for line in said), said
    assert took < END_S
    assert not psutil.wait_procs(family, timeout=5)[1]
    ledger = Ledger.open(tmp_path / "results" / "ledger.db", create=False)
    assert not ledger.runs(states=["claimed", "running"])
    ledger.close()
