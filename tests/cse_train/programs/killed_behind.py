"""Runs that are killed at random times while a slow disk is written behind them: SETTINGS_JSON TRAIN_FILE FOLDER KILLS.

The runs fork from this process, so that the imports are paid once. A run that ends makes room for one in another
folder. Prints as JSON what each kill found, and whether each run that ended is the undisturbed one.
"""

import itertools
import json
import multiprocessing
import os
import random
import sys
import time
from multiprocessing.sharedctypes import SynchronizedArray
from pathlib import Path
from typing import Any

import torch

from cse_train import checkpoint, files
from cse_train.config import evaluation_steps, parse_run
from cse_train.data_paths import DataPaths
from cse_train.training import loop

SAVE_S, FSYNC_S = 0.5, 0.03
FORKS = multiprocessing.get_context("fork")


def slow_disk() -> None:
    """Every flush takes FSYNC_S, so that many a kill comes while a file is written."""
    flush = os.fsync
    files.os.fsync = lambda number: time.sleep(FSYNC_S) or flush(number)  # type: ignore[attr-defined]


def train(settings: dict[str, Any], text: str, folder: Path, begun: Any, times: "SynchronizedArray[float]") -> None:
    """Note when the run began to train, and by the clock of all processes when it made each point."""
    torch.set_num_threads(1)
    slow_disk()
    begun.set()

    def note(point: loop.Point) -> bool:
        times[point.step] = time.monotonic()
        return False

    loop.train(parse_run(settings), DataPaths(train_file=Path(text)), folder, note, save_minutes=SAVE_S / 60)


def result(folder: Path) -> dict[str, Any]:
    """Everything that a finished run leaves but the clock: points, state, best model."""
    state = checkpoint.load_last(folder)
    assert state is not None
    _, facts, tensors = checkpoint.read_best(folder)
    points = [{k: v for k, v in point.items() if k != "seconds"} for point in state["points"]]
    moments = {f"{n} {k}": v for n, each in state["optimiser"]["state"].items() for k, v in each.items()}
    return {"points": points, "best": facts["best"], **{f"best {k}": v for k, v in tensors.items()}} | (
        {f"last {name}": value for name, value in (state["model"] | moments).items()}
    )


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(
        torch.equal(value, other[name]) if isinstance(value, torch.Tensor) else value == other[name]
        for name, value in one.items()
    )


class Runs:
    """Of one configuration, in processes of their own."""

    def __init__(self, settings: dict[str, Any], text: str) -> None:
        self.settings, self.text = settings, text
        self.steps = [0, *evaluation_steps(parse_run(settings).train)]

    def train(self, folder: Path, seconds: float | None) -> float:
        """The seconds that a run took; it is killed after so many."""
        self.times, begun = FORKS.Array("d", self.steps[-1] + 1), FORKS.Event()
        self.process = FORKS.Process(target=train, args=(self.settings, self.text, folder, begun, self.times))
        self.process.start()
        begun.wait()
        self.times[0] = time.monotonic()
        self.process.join(seconds)
        self.process.kill()
        self.process.join()
        return time.monotonic() - self.times[0]

    def train_here(self, folder: Path) -> None:
        """What the processes to come find loaded."""
        loop.train(parse_run(self.settings), DataPaths(train_file=Path(self.text)), folder, lambda point: False)

    def look(self, folder: Path) -> dict[str, Any]:
        """What a kill has left; seconds between points beside it."""
        reached = [step for step in self.steps if self.times[step]]
        there = (folder / checkpoint.LAST).exists()
        newest = checkpoint.load_newest([folder])
        saved = newest[0]["step"] if newest else 0
        lost = [self.times[step] for step in reached if step >= max(saved, self.steps[1])] or [0.0]
        gaps = [later - earlier for earlier, later in itertools.pairwise(lost)]
        return {
            "at": reached[-1],
            "saved": saved,
            "lost_s": lost[-1] - lost[0],
            "gap_s": max(gaps, default=0.0),
            "damaged": there and newest is None,
        }


def main(given: str, text: str, work: str, kills: str) -> None:
    torch.set_num_threads(1)
    runs, draw = Runs(json.loads(given), text), random.Random(49)
    runs.train_here(Path(work, "whole"))
    whole_s = runs.train(Path(work, "again"), None)
    wanted, found, ended = (
        result(Path(work, "whole")),
        list[dict[str, Any]](),
        [same(result(Path(work, "again")), result(Path(work, "whole")))],
    )
    while len(found) < int(kills) or len(ended) < 2:
        folder = Path(work, f"killed{len(ended)}")
        runs.train(folder, draw.uniform(0, whole_s) if len(found) < int(kills) else None)
        if runs.process.exitcode == 0:
            ended.append(same(result(folder), wanted))
        else:
            found.append(runs.look(folder))
    print(json.dumps({"kills": found, "ended": ended, "whole_s": whole_s, "save_s": SAVE_S}))


if __name__ == "__main__":
    main(*sys.argv[1:5])
