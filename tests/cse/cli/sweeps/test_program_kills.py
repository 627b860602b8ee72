"""kill -9 of the driver of a sweep of a user's own program, at random times: the same command goes on, under real Ray.

`CSE_KILLS=10` kills ten. tests/cse_train/training/test_kills.py kills the program and its rank.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from analysis.run_state import RunState
from tests.cse_train.training.killed_program import (
    KILLS,
    PATIENCE_S,
    assert_nothing_is_lost,
    train_by_hand,
    wait_for_attempt,
    write_script,
)

LONGEST_S = 8.0
"""Of an attempt that is killed at most a second after it began: its process hears of its driver's end through Ray."""
SPACE = """
version: 1
id: mine
trainer: {script: mine.py, score: {name: loss, direction: min}}
seeds: 1
space: {rate: {grid: [0.01]}}
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout((KILLS + 2) * PATIENCE_S)]


def start(folder: Path) -> subprocess.Popen[bytes]:
    words = ["run", "mine.yaml", "--yes", "--ledger", "ledger.db"]
    return subprocess.Popen([sys.executable, "-m", "cse", *words], cwd=folder)


def test_a_sweep_whose_driver_is_killed_at_random_times_ends_as_an_undisturbed_one(tmp_path: Path) -> None:
    draw = random.Random("driver")
    (tmp_path / "mine.py").write_text(write_script(LONGEST_S))
    (tmp_path / "mine.yaml").write_text(SPACE)
    driver = start(tmp_path)
    for number in range(1, KILLS + 1):
        wait_for_attempt(tmp_path, number)
        time.sleep(draw.uniform(0, 1))
        os.kill(driver.pid, signal.SIGKILL)
        assert driver.wait(PATIENCE_S) == -signal.SIGKILL
        driver = start(tmp_path)
    assert driver.wait(PATIENCE_S) == 0
    assert_nothing_is_lost(tmp_path)

    by_hand, undisturbed = train_by_hand(tmp_path)
    ledger = Ledger.open(tmp_path / "ledger.db")
    (run,) = ledger.runs()
    points = [[point.step, -(point.metrics["loss"] or 0.0)] for point in ledger.curve(run.signature)]
    ledger.close()
    assert (run.state, points) == (RunState.DONE, by_hand)
    assert run.best is not None and -run.best == min(loss for _, loss in by_hand)
    assert (Path(str(run.folder)) / "best" / "model.pt").read_bytes() == undisturbed.read_bytes()
