"""A sweep that is interrupted, or loses its cluster, with real processes and real Ray."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from tests.waiting import wait_for

SPACE = """version: 1
id: mine
method: simcse
seeds: 4
set:
  train.encoder: words-l2-h128
  train.corpus: generated
  train.dev: "generated_dev:40"
  train.examples: {examples}
  train.batch_size: 8
  train.evaluations: 4
space:
  method.temperature: {{grid: [0.05]}}
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def started(folder: Path, examples: int) -> subprocess.Popen[str]:
    (folder / "mine.yaml").write_text(SPACE.format(examples=examples), encoding="utf8")
    code = "import sys; from cse.cli.app import main; sys.exit(main())"
    argv = [sys.executable, "-c", code, "run", "mine.yaml", "--max-concurrent", "1"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    return subprocess.Popen(
        argv, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def states(folder: Path) -> list[str]:
    path = folder / "results" / "ledger.db"
    return [run.state for run in Ledger.open(path).runs()] if path.exists() else []


def test_an_interrupt_keeps_what_is_finished_and_the_same_command_goes_on(tmp_path: Path) -> None:
    first = started(tmp_path, 4000)
    wait_for(lambda: "done" in states(tmp_path) or first.poll() is not None)
    first.send_signal(signal.SIGINT)
    out, err = first.communicate(timeout=120)
    assert first.returncode == 130, out + err
    assert "Traceback" not in err
    assert "the same command continues" in err
    kept = states(tmp_path).count("done")
    assert kept >= 1
    assert not {"claimed", "running"} & set(states(tmp_path))
    second = started(tmp_path, 4000)
    out, err = second.communicate(timeout=400)
    assert second.returncode == 0, out + err
    assert f"4 runs: {kept} already in the ledger, {4 - kept} to run" in out
    assert states(tmp_path) == ["done"] * 4


def test_two_drivers_of_one_file_train_each_run_once(tmp_path: Path) -> None:
    drivers = [started(tmp_path, 400), started(tmp_path, 400)]
    said = [driver.communicate(timeout=500) for driver in drivers]
    assert [driver.returncode for driver in drivers] == [0, 0], said
    runs = Ledger.open(tmp_path / "results" / "ledger.db").runs()
    assert [(run.state, run.attempt) for run in runs] == [("done", 1)] * 4


def test_a_sweep_without_a_node_ends_and_the_same_command_finishes_it(tmp_path: Path) -> None:
    first = started(tmp_path, 4000)
    wait_for(lambda: "done" in states(tmp_path) or first.poll() is not None)
    raylet = subprocess.check_output(["pgrep", "-x", "-P", str(first.pid), "raylet"], text=True)
    os.kill(int(raylet), signal.SIGKILL)
    out, err = first.communicate(timeout=300)
    assert first.returncode == 1, out + err
    assert "cse: cluster lost" in err and "the same command continues" in err and "Traceback" not in err
    done = states(tmp_path).count("done")
    assert done and not {"running", "claimed"} & set(states(tmp_path))

    second = started(tmp_path, 4000)
    out, err = second.communicate(timeout=300)
    assert second.returncode == 0, out + err
    assert f"{4 - done} done" in out and f"{done} reused" in out
