"""Runs of one configuration, each in processes of its own, on a card where there is one: RUNS_JSON TEXT FOLDER.

RUNS_JSON: a list of runs, each with `name` (its folder), `settings`, and where wanted `kill_at` (SIGKILL before that
update), `deterministic` (torch's deterministic algorithms), `backend` and `ranks` (a process group, with DDP also
around one rank). A later run of the same name resumes. NAME.json holds losses, the first update trained, the parts of
torch that have no deterministic form, and the device. The processes fork from this one, which never touches the card.
"""

import json
import multiprocessing
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from cse_train import distributed
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.training import loop

SECONDS = 120
"""Of one run at most."""


def note_updates(kill_at: int | None) -> list[int]:
    """The updates that will be trained here, by their step."""
    update, trained = loop.Session.update, list[int]()

    def noted(session: loop.Session) -> dict:
        if session.step == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        trained.append(session.step)
        return update(session)

    loop.Session.update = noted  # type: ignore[method-assign]
    return trained


def joined(backend: str, store: Path, rank: int, ranks: int) -> None:
    """Join the process group and try each collective that training uses."""
    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=ranks)
    distributed.wrap = distributed.wrap_ddp
    mine = torch.full((3,), float(rank + 1), device=distributed.device())
    parts = [torch.empty_like(mine) for _ in range(ranks)]
    dist.all_gather(parts, mine)
    assert [int(part[0]) for part in parts] == list(range(1, ranks + 1)), parts
    dist.all_reduce(mine)
    assert mine.tolist() == [ranks * (ranks + 1) / 2] * 3, mine
    dist.barrier()


def make(run: dict[str, Any], rank: int, text: Path, work: Path) -> None:
    """One rank of one run."""
    torch.set_num_threads(1)
    if run.get("deterministic"):
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        torch.use_deterministic_algorithms(True, warn_only=True)
    if backend := run.get("backend"):
        joined(backend, work / f"{run['name']}.store", rank, run.get("ranks", 1))
    updates = note_updates(run.get("kill_at"))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        asked, paths = parse_run(run["settings"]), DataPaths(train_file=text)
        outcome = loop.train(asked, paths, work / run["name"], lambda point: False, save_minutes=0)
    if rank == 0:
        without = sorted(
            {str(one.message).split(" does not")[0] for one in seen if "deterministic" in str(one.message)}
        )
        result = {
            "losses": [point.metrics["loss"] for point in outcome.points],
            "best": outcome.best,
            "first_update": updates[0],
            "without": without,
            "device": distributed.device().type,
        }
        (work / f"{run['name']}.json").write_text(json.dumps(result))
    if run.get("backend"):
        dist.barrier()
        dist.destroy_process_group()


def main(runs: list[dict[str, Any]], text: Path, work: Path) -> int:
    forks = multiprocessing.get_context("fork")
    work.mkdir(parents=True, exist_ok=True)
    for run in runs:
        ranks = [forks.Process(target=make, args=(run, n, text, work)) for n in range(run.get("ranks", 1))]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join(SECONDS)
            process.kill()
            process.join()
        codes = [process.exitcode for process in ranks]
        if codes != [-signal.SIGKILL if "kill_at" in run else 0] * len(ranks):
            print(f"{run['name']}: exit codes {codes}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])))
