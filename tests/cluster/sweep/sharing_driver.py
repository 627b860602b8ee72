"""One user's driver on a Ray cluster that is there, of runs that take room: FOLDER ADDRESS USER PRIORITY SEED RUNS."""

import sys
from pathlib import Path

from cluster.runtime.options import SweepOptions
from cluster.sweep.run_sweep import run_sweep
from cse_train.data_paths import DataPaths
from tests.conftest import planned


def main() -> None:
    folder, address, user, priority, first, runs = sys.argv[1:]
    options = SweepOptions(
        storage=Path(folder) / "runs",
        address=address,
        user=user,
        priority=int(priority),
        cpus_per_worker=0.5,
        group="room_group:RoomGroup",
    )
    seeds = range(int(first), int(first) + int(runs))
    outcome = run_sweep(
        [planned(seed) for seed in seeds],
        Path(folder) / "ledger.db",
        DataPaths(train_file=Path(folder) / "script.json"),
        options,
    )
    assert outcome.done == len(seeds), outcome


if __name__ == "__main__":
    main()
