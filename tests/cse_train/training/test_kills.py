"""kill -9 of a program's process, and of its rank, at random times: it goes on, and ends as an undisturbed one.

`CSE_KILLS=10` kills ten of each. tests/cse/cli/sweeps/test_program_kills.py kills the driver of a sweep.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cse_train.training.killed_program import (
    KILLS,
    PATIENCE_S,
    assert_nothing_is_lost,
    train_by_hand,
    wait_for_attempt,
    write_script,
)

LONGEST_S = 1.0
"""Of an attempt until it is killed at the latest."""
RANK = """
import json, sys
from pathlib import Path
from cse_train.plugins.trainer import TrainerScore
from cse_train.reading import MachineFault
from tests.cse_train.training.programs import run_program

folder, score = Path(sys.argv[1]), TrainerScore(name="loss", direction="min")
while True:
    before = len([*folder.glob("attempt-*")])
    earlier = f"attempt-{before}" if before else None
    try:
        ran = run_program(
            folder, (folder / "script").read_text(), into=f"attempt-{before + 1}", resume_from=earlier,
            parameters={"rate": 0.01}, score=score,
        )
        break
    except MachineFault as error:
        print(error)
points = [(point.step, -point.metrics["loss"]) for point in ran.points]
(folder / "ended").write_text(json.dumps([points, -ran.outcome.best, str(folder / f"attempt-{before + 1}" / "best")]))
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout((KILLS + 2) * PATIENCE_S)]


def start(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", RANK, str(folder)])


@pytest.mark.parametrize("whose", ["child", "rank"])
def test_a_program_that_is_killed_at_random_times_ends_as_an_undisturbed_one(whose: str, tmp_path: Path) -> None:
    draw = random.Random(whose)
    (tmp_path / "script").write_text(write_script(LONGEST_S))
    rank = start(tmp_path)
    for number in range(1, KILLS + 1):
        attempt = wait_for_attempt(tmp_path, number)
        time.sleep(draw.uniform(0, LONGEST_S))
        os.kill(attempt[whose], signal.SIGKILL)
        if whose == "rank":
            assert rank.wait(PATIENCE_S) == -signal.SIGKILL
            rank = start(tmp_path)
    assert rank.wait(PATIENCE_S) == 0
    assert_nothing_is_lost(tmp_path)

    by_hand, undisturbed = train_by_hand(tmp_path)
    points, best, folder = json.loads((tmp_path / "ended").read_text())
    assert (points, best) == (by_hand, min(loss for _, loss in by_hand))
    assert (Path(folder) / "model.pt").read_bytes() == undisturbed.read_bytes()
