"""kill -9 of a program's process, and of its rank, at random times: it goes on, and ends as an undisturbed one.

`CSE_KILLS=10` kills ten of each. Under Ray, tests/cluster/sweep/test_trainer_sweep.py kills both at chosen steps.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

KILLS = int(os.environ.get("CSE_KILLS", "2"))
PATIENCE_S = 300
"""Within which an attempt begins, on a machine that others use too."""
EVERY, STEP_S, LONGEST_S = 4, 0.03, 1.0
"""Steps between two checkpoints, seconds of a step, and of an attempt until it is killed at the latest."""
STEPS = EVERY * round((KILLS + 1) * LONGEST_S / STEP_S / EVERY)
"""Of a run, which no attempt ends before the last kill."""
SCRIPT = f"""
import argparse, json, os, pathlib, time
import torch
import cse

parser = argparse.ArgumentParser()
for name in ("--rate", "--seed", "--output_dir"):
    parser.add_argument(name)
given = parser.parse_args()
out = pathlib.Path(given.output_dir)
out.mkdir(exist_ok=True)
by_hand = cse.best_folder() is None
torch.manual_seed(int(given.seed))
model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Tanh(), torch.nn.Dropout(0.1), torch.nn.Linear(16, 1))
optimiser = torch.optim.Adam(model.parameters(), lr=float(given.rate))
done, state = 0, out / "state.pt"
if state.exists():
    kept = torch.load(state)
    done = kept["step"]
    model.load_state_dict(kept["model"])
    optimiser.load_state_dict(kept["optimiser"])
    torch.set_rng_state(kept["random"])


def note(**facts):
    with open("by-hand" if by_hand else "attempts", "a") as file:
        file.write(json.dumps(facts) + "\\n")


note(child=os.getpid(), rank=os.getppid(), begins=done)
for step in range(done + 1, {STEPS} + 1):
    rows = torch.randn(32, 16)
    loss = (model(rows) - rows.sum(1, keepdim=True)).square().mean()
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    time.sleep(0 if by_hand else {STEP_S})
    if step % {EVERY} == 0:
        if by_hand:
            (out / str(step)).mkdir()
            torch.save(model.state_dict(), out / str(step) / "model.pt")
        elif cse.report(step, loss=loss.item(), fraction=step / {STEPS}):
            torch.save(model.state_dict(), cse.best_folder() / "model.pt")
        kept = {{"step": step, "model": model.state_dict(), "optimiser": optimiser.state_dict()}}
        torch.save({{**kept, "random": torch.get_rng_state()}}, out / "aside.pt")
        os.replace(out / "aside.pt", state)
        note(step=step, loss=loss.item())
"""
RANK = """
import json, sys
from pathlib import Path
from cse_train.plugins.trainer import TrainerScore
from cse_train.reading import MachineFault
from tests.cse_train.training.trainer.programs import run_program

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


def read(folder: Path, name: str) -> list[dict[str, Any]]:
    """What the attempts noted: `begins` with the step of the checkpoint, and each step that was kept after it."""
    lines = (folder / name).read_text().splitlines(True) if (folder / name).exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def wait_for_attempt(folder: Path, number: int) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        attempts = [noted for noted in read(folder, "attempts") if "begins" in noted]
        if len(attempts) >= number:
            return attempts[number - 1]
        time.sleep(0.02)
    raise AssertionError(f"attempt {number} has not begun")


@pytest.mark.parametrize("whose", ["child", "rank"])
def test_a_program_that_is_killed_at_random_times_ends_as_an_undisturbed_one(whose: str, tmp_path: Path) -> None:
    draw = random.Random(whose)
    (tmp_path / "script").write_text(SCRIPT)
    rank = start(tmp_path)
    for number in range(1, KILLS + 1):
        attempt = wait_for_attempt(tmp_path, number)
        time.sleep(draw.uniform(0, LONGEST_S))
        os.kill(attempt[whose], signal.SIGKILL)
        if whose == "rank":
            assert rank.wait(PATIENCE_S) == -signal.SIGKILL
            rank = start(tmp_path)
    assert rank.wait(PATIENCE_S) == 0
    attempts = read(tmp_path, "attempts")
    assert sum("begins" in noted for noted in attempts) == KILLS + 1
    kept = 0
    for noted in attempts:
        if "begins" in noted:  # a kill between a checkpoint and its note leaves the checkpoint
            assert noted["begins"] in (kept, kept + EVERY)
        kept = noted.get("step", noted.get("begins"))

    words = ["--rate", "0.01", "--seed", "0", "--output_dir", "undisturbed"]
    subprocess.run([sys.executable, "mine.py", *words], cwd=tmp_path, check=True)
    by_hand = [noted for noted in read(tmp_path, "by-hand") if "step" in noted]
    points, best, folder = json.loads((tmp_path / "ended").read_text())
    assert points == [[noted["step"], noted["loss"]] for noted in by_hand]
    first = min(by_hand, key=lambda noted: noted["loss"])
    assert best == first["loss"]
    undisturbed = tmp_path / "undisturbed" / str(first["step"]) / "model.pt"
    assert (Path(folder) / "model.pt").read_bytes() == undisturbed.read_bytes()
