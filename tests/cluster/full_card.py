"""A pretended card that two runs share in a Ray of their own: FOLDER. Run 0 takes all of its memory.

Run 1 finds none left beside it, and none of its own making; run 2 never finds enough. What happened is printed as JSON.
"""

import contextlib
import functools
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import ray
import torch

from analysis.ledger import Ledger
from cluster.plan.plan import PlannedRun
from cluster.runtime import start
from cluster.runtime.options import SweepOptions
from cluster.slots import worker_group
from cluster.sweep.events import SweepEvent
from cluster.sweep.run_sweep import run_sweep
from cse_train.data_paths import DataPaths
from cse_train.results import Outcome
from tests.cluster.jobs import run_of

GREEDY, INNOCENT, LARGE = 0, 1, 2
FULL = "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.10 GiB of which 0 is free."
WAIT_S = 60.0


class GlooGroup(worker_group.WorkerGroup):
    """A slot's own group, whose ranks talk through gloo: a torch without CUDA has no NCCL."""

    def __init__(self, recycle_after: int, name: str) -> None:
        worker_group.backend = lambda gpus: "gloo"
        super().__init__(recycle_after, name)


def train(run: Any, paths: Any, folder: Path, *others: object, **further: object) -> Outcome:
    """Notes how much of which card the run has, and who else has a part of it."""
    place, seed = paths.train_file.parent, run.train.seed
    mine = place / f"on-card-{seed}"
    mine.touch()
    try:
        if seed == INNOCENT:
            _wait_for(place / f"try-{GREEDY}-0")
        beside = [file for file in place.glob("on-card-*") if file != mine]
        tries = len(list(place.glob(f"try-{seed}-*")))
        (place / f"try-{seed}-{tries}").write_text(f"{os.environ['CUDA_VISIBLE_DEVICES']} {len(beside)}")
        if seed == GREEDY:
            _wait_for(place / f"try-{INNOCENT}-0", place / f"try-{LARGE}-0")
        if seed == LARGE or ((place / f"on-card-{GREEDY}").exists() and seed != GREEDY):
            raise torch.OutOfMemoryError(FULL)
        return Outcome(False, run.train.examples, 1.0, run.train.examples, 0.1, ())
    finally:
        mine.unlink()


def _wait_for(*files: Path) -> None:
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until and not all(file.exists() for file in files):
        time.sleep(0.2)


def main(folder: Path) -> None:
    ray.init, os.environ["CUDA_VISIBLE_DEVICES"] = functools.partial(ray.init, num_gpus=1), "0"
    here = Path(__file__).parent
    os.environ["PYTHONPATH"] = os.pathsep.join([str(here), *filter(None, [os.environ.get("PYTHONPATH")])])
    events: list[SweepEvent] = []
    runs = [PlannedRun(f"signature{seed}", run_of(seed=seed), {}, {}, seed, "s") for seed in (GREEDY, INNOCENT, LARGE)]
    given = {"function": "full_card:train", "group": "full_card:GlooGroup"}
    options = SweepOptions(storage=folder / "runs", gpus_per_worker=0.5, **given)
    paths = DataPaths(train_file=folder / "none.txt")
    with start.ray_cluster(folder / "ray", num_cpus=2, memory_gb=8.0):
        outcome = run_sweep(runs, folder / "ledger.db", paths, options, events.append)
    with contextlib.closing(Ledger.open(folder / "ledger.db")) as ledger:
        rows = {row.seed: (str(row.state), row.attempt) for row in ledger.runs()}
    said = {
        "done": outcome.done,
        "failures": [failure.reason for failure in outcome.failures],
        "rows": rows,
        "requeued": [(event.signature, event.reason) for event in events if event.kind == "requeued"],
        "tries": {path.name: path.read_text() for path in sorted(folder.glob("try-*"))},
        "seconds": outcome.seconds,
    }
    print(json.dumps(said))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
