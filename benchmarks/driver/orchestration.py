"""What the driver costs: makespans of trials that sleep, against the ideal one in which no slot ever waits.

Slots of real worker groups with one rank each, 64 slots of stub processes that import no torch, and Ray Tune's function
API, which starts a process for every trial. CPUs and memory of the Ray node are numbers that we give it: nothing
computes. The clock runs from the moment at which every slot has its first trial to the end of the last one.

    python -m benchmarks.driver.orchestration [--quick] [--only stub] [--profile FILE]
"""

import argparse
import contextlib
import cProfile
import itertools
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.ledger import Ledger
from benchmarks.driver.sleeping import Load, tune_function
from cluster.plan.plan import PlannedRun
from cluster.runtime.options import SweepOptions
from cluster.runtime.start import ray_cluster
from cluster.sweep.events import SweepEvent
from cluster.sweep.run_sweep import run_sweep
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths

BAR_SHARE, BAR_TIMES = 0.95, 5.0
GB_PER_SLOT = 2.0
"""Memory that the Ray node claims to have for each slot."""


@dataclass(frozen=True)
class Measured:
    """Makespan of one sweep, and what it cost the driver."""

    name: str
    load: Load
    share: float
    startup_s: float
    """Until every slot had its first trial."""
    driver_ms: float | None = None
    """CPU time of the driver's process for one trial, warm."""
    own_mb: float | None = None
    """Largest memory of a trial's process that it shares with no other."""

    def row(self) -> str:
        driver = "" if self.driver_ms is None else f"{self.driver_ms:.1f}"
        memory = "" if self.own_mb is None else f"{self.own_mb:.0f}"
        sizes = f"{self.load.slots} | {self.load.rounds} x {self.load.seconds:g} s"
        return f"| {self.name} | {sizes} | {self.share:.3f} | {self.startup_s:.0f} | {driver} | {memory} |"


HEADER = """| trials in | slots | rounds | share of ideal | s until all slots ran | driver CPU ms per trial | own MB |
|---|---|---|---|---|---|---|"""


def sweep(name: str, load: Load, *, driver: int = 0, ledger: str | None = None, **options: Any) -> Measured:
    """Our sweep of a driver's trials on the Ray that this process has, which must hold all slots at once.

    With other drivers beside this one there is no share before their trials have ended too.
    """
    import ray

    folder, numbers = Path(load.folder), load.numbers(driver)
    slots = load.slots // load.drivers
    clock: list[float] = []
    starts = itertools.count(1)

    def note(event: SweepEvent) -> None:
        assert event.kind not in ("failed", "retried"), event.reason
        if event.kind == "started":
            load.started(next(starts), driver)
        elif event.kind == "done":
            clock.append(time.process_time())

    address = ray.get_runtime_context().gcs_address  # a cluster's nodes are believed what they claim
    begun = time.time()
    url = ledger or folder / "ledger.db"
    outcome = run_sweep(
        [planned(number) for number in numbers],
        url,
        DataPaths(train_file=load.write()),
        SweepOptions(storage=folder / "runs", address=address, **options),
        note,
    )
    assert outcome.done == len(numbers), outcome
    points = facts(url, [f"sleep{number}" for number in numbers])
    processes, imported = {point["pid"] for point in points}, sum(point["torch"] for point in points)
    assert len(processes) == slots, f"{len(processes)} processes served {slots} slots"
    assert imported == 0 or "group" not in options, f"{imported:.0f} stub trials found torch imported"
    return Measured(
        name,
        load,
        load.share() if load.drivers == 1 else float("nan"),
        load.begun() - begun,
        1000 * (clock[-1] - clock[slots - 1]) / (len(numbers) - slots),
        max(point["own_mb"] for point in points),
    )


def facts(url: str | Path, signatures: list[str]) -> list[dict[str, float]]:
    """Returns the facts that each trial reported of its process (`benchmarks.driver.sleeping.process_facts`)."""
    ledger = Ledger.open(url)
    metrics = [ledger.curve(signature)[-1].metrics for signature in signatures]
    ledger.close()
    return metrics


def planned(number: int) -> PlannedRun:
    settings = {"method": "simcse", "train.seed": number, "train.examples": 64, "train.evaluations": 1}
    return PlannedRun(f"sleep{number}", parse_run(settings), {}, {}, number, "orchestration")


def tuned(load: Load) -> Measured:
    """Runs the load's trials as functions of Ray Tune, without the project's driver."""
    from ray import tune

    class Starts(tune.Callback):
        """Counts the trials that Tune has started."""

        count = 0

        def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
            self.count += 1
            load.started(self.count)

    begun = time.time()
    space = {"load": str(load.write()), "number": tune.grid_search(list(range(load.trials)))}
    tune.Tuner(
        tune.with_resources(tune_function, {"cpu": 1}),
        param_space=space,
        tune_config=tune.TuneConfig(max_concurrent_trials=load.slots),
        run_config=tune.RunConfig(storage_path=str(Path(load.folder, "tune")), verbose=0, callbacks=[Starts()]),
    ).fit()
    return Measured("Ray Tune's function API", load, load.share(), load.begun() - begun)


@contextlib.contextmanager
def simulated(slots: int) -> Iterator[None]:
    """Starts a Ray node that claims a CPU and memory for each slot, for the block."""
    with (
        tempfile.TemporaryDirectory() as folder,
        ray_cluster(Path(folder), num_cpus=slots, memory_gb=slots * GB_PER_SLOT),
    ):
        yield


def measure(kind: str, slots: int, seconds: float, rounds: int) -> Measured:
    """Measures one row of the table; `kind` of its trials is `real`, `stub` or `tune`."""
    with simulated(slots), tempfile.TemporaryDirectory() as folder:
        load = Load(folder, slots, seconds, rounds)
        if kind == "tune":
            return tuned(load)
        if kind == "stub":
            return sweep("stub slots, no torch", load, group="benchmarks.driver.sleeping:SleepingGroup")
        return sweep("slots with a real group, W = 1", load, function="benchmarks.driver.sleeping:train")


FULL = [("real", 8, 2.0, 8), ("tune", 8, 2.0, 4), ("stub", 64, 2.0, 8), ("stub", 64, 20.0, 3)]
QUICK = [("real", 2, 1.0, 2), ("tune", 2, 1.0, 2), ("stub", 4, 1.0, 4)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few slots, seconds instead of minutes")
    parser.add_argument("--only", choices=("real", "tune", "stub"), help="rows of this kind alone")
    parser.add_argument("--profile", type=Path, help="write the driver's profile there (pstats)")
    given = parser.parse_args()
    print(f"{len(os.sched_getaffinity(0))} CPUs, load {os.getloadavg()[0]:.1f} before\n{HEADER}", flush=True)
    profile = cProfile.Profile()
    shares = {}
    for row in QUICK if given.quick else FULL:
        if given.only in (None, row[0]):
            with profile if given.profile else contextlib.nullcontext():
                shares[row[0]] = measure(*row)
            print(shares[row[0]].row(), flush=True)
    if {"real", "tune"} <= shares.keys():
        print(f"\n{shares['real'].share / shares['tune'].share:.1f} times Tune's function API (bar {BAR_TIMES:g})")
    print(f"bar for the share: {BAR_SHARE:g}")
    if given.profile:
        profile.dump_stats(given.profile)


if __name__ == "__main__":
    main()
