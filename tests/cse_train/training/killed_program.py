"""A program that trains by seeds, keeps its state, and notes what it did, so that kills of it can be judged."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

KILLS = int(os.environ.get("CSE_KILLS", "2"))
PATIENCE_S = 300
"""Within which an attempt begins, on a machine that others use too."""
EVERY, STEP_S = 4, 0.03
"""Steps between two checkpoints, and seconds of a step."""
SCRIPT = """
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
for step in range(done + 1, STEPS + 1):
    rows = torch.randn(32, 16)
    loss = (model(rows) - rows.sum(1, keepdim=True)).square().mean()
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    time.sleep(0 if by_hand else STEP_S)
    if step % EVERY == 0:
        if by_hand:
            (out / str(step)).mkdir()
            torch.save(model.state_dict(), out / str(step) / "model.pt")
        elif cse.report(step, loss=loss.item(), fraction=step / STEPS):
            torch.save(model.state_dict(), cse.best_folder() / "model.pt")
        kept = {"step": step, "model": model.state_dict(), "optimiser": optimiser.state_dict()}
        torch.save({**kept, "random": torch.get_rng_state()}, out / "aside.pt")
        os.replace(out / "aside.pt", state)
        note(step=step, loss=loss.item())
"""


def write_script(longest_s: float) -> str:
    """The program whose runs last longer than all attempts that are killed, of `longest_s` seconds at most each."""
    steps = EVERY * round((KILLS + 1) * longest_s / STEP_S / EVERY)
    return SCRIPT.replace("STEPS", str(steps)).replace("STEP_S", str(STEP_S)).replace("EVERY", str(EVERY))


def read_notes(folder: Path, name: str) -> list[dict[str, Any]]:
    """What the attempts noted: `begins` with the step of the checkpoint, and each step that was kept after it."""
    lines = (folder / name).read_text().splitlines(True) if (folder / name).exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def wait_for_attempt(folder: Path, number: int) -> dict[str, Any]:
    """What the attempt noted as it began."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        attempts = [noted for noted in read_notes(folder, "attempts") if "begins" in noted]
        if len(attempts) >= number:
            return attempts[number - 1]
        time.sleep(0.02)
    raise AssertionError(f"attempt {number} has not begun")


def assert_nothing_is_lost(folder: Path) -> None:
    """Each attempt began at the newest checkpoint of the one before; one that was killed between a checkpoint and
    its note leaves the checkpoint."""
    attempts = read_notes(folder, "attempts")
    assert sum("begins" in noted for noted in attempts) == KILLS + 1
    kept = 0
    for noted in attempts:
        if "begins" in noted:
            assert noted["begins"] in (kept, kept + EVERY)
        kept = noted.get("step", noted.get("begins"))


def train_by_hand(folder: Path) -> tuple[list[list[float]], Path]:
    """(step, loss) of each checkpoint of the same program without a sweep, and the file of its best model."""
    words = ["--rate", "0.01", "--seed", "0", "--output_dir", "undisturbed"]
    subprocess.run([sys.executable, "mine.py", *words], cwd=folder, check=True)
    by_hand = [noted for noted in read_notes(folder, "by-hand") if "step" in noted]
    first = min(by_hand, key=lambda noted: noted["loss"])
    model = folder / "undisturbed" / str(first["step"]) / "model.pt"
    return [[noted["step"], noted["loss"]] for noted in by_hand], model
