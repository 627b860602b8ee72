"""Two ranks whose state differs, killed between the rank files and the joined one: SETTINGS_JSON TRAIN_FILE FOLDER.

The ranks fork from this process, so that the imports are paid once. Each session leaves what it found in FOLDER.
"""

import json
import multiprocessing
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from cse_train import checkpoint
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.training import loop

RANKS = 2


def die_at(step: int) -> None:
    save = checkpoint.save_last

    def dying(folder: Path, state: dict) -> None:
        if state["step"] == step:
            os._exit(9)
        save(folder, state)

    checkpoint.save_last = dying


def rank(number: int, store: Path, settings: str, text: str, folder: Path, step: int | None, minutes: float) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=number, world_size=RANKS)
    if step is not None:
        die_at(step)
    replayed: list[bool] = []
    loop.train(
        parse_run(json.loads(settings)),
        DataPaths(train_file=Path(text)),
        folder,
        lambda point: bool(replayed.append(point.replayed)),
        save_minutes=minutes,
    )
    (folder / f"told{number}.json").write_text(json.dumps(replayed))
    dist.destroy_process_group()


def both(name: str, settings: str, text: str, folder: Path, step: int | None = None, minutes: float = 0) -> None:
    forks = multiprocessing.get_context("fork")
    ranks = [
        forks.Process(target=rank, args=(n, folder.parent / f"store-{name}", settings, text, folder, step, minutes))
        for n in range(RANKS)
    ]
    for one in ranks:
        one.start()
    for one in ranks:
        one.join(100)
        one.kill()


def main(settings: str, text: str, work: str) -> None:
    whole, killed, torn = (Path(work, name) for name in ("whole", "killed", "torn"))
    both("whole", settings, text, whole)
    both("killed", settings, text, killed, step=10)
    both("again", settings, text, killed)
    both("before", settings, text, torn, step=10)
    (torn / "last" / "rank1-5.pt").write_bytes(b"half")
    both("torn", settings, text, torn)
    both("behind", settings, text, Path(work, "behind"), minutes=5)


if __name__ == "__main__":
    main(*sys.argv[1:4])
