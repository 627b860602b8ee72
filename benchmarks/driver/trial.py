"""What a trial costs beside its training: a warm slot against `isolation: trial`, a new Ray Train run per trial.

Beside them stands plain Optuna, whose objective trains the same run in one process with no group, ledger or stopping.

A trial is near-empty: one step of batch 8 on the shipped L2 H128, a dev evaluation on 16 pairs, checkpoints, and the
ledger's commits. Measured: seconds between the first steps of two trials that follow each other on one slot.

    python -m benchmarks.driver.trial [--trials 12] [--workers 2]
"""

import argparse
import itertools
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from cluster.plan.plan import PlannedRun
from cluster.runtime.options import SweepOptions
from cluster.runtime.start import ray_cluster
from cluster.sweep.events import SweepEvent
from cluster.sweep.run_sweep import run_sweep
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.training.loop import train

BAR_SECONDS, BAR_RATIO = 0.3, 50.0


def near_empty(seed: int) -> PlannedRun:
    """A planned run of one step."""
    settings = {
        "method": "simcse",
        "train.encoder": "wiki-l2-h128",
        "train.corpus": "file",
        "train.dev": "generated_dev:16",
        "train.batch_size": 8,
        "train.examples": 8,
        "train.evaluations": 1,
        "train.seed": seed,
    }
    return PlannedRun(f"trial{seed}", parse_run(settings), {}, {}, seed, "trial")


def gaps(isolation: str, trials: int, workers: int) -> list[float]:
    """Seconds between the evaluations of trials that follow each other, each right after its one step."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "text.txt").write_text("\n".join(f"sentence number {i} of a small corpus" for i in range(64)))
        options = SweepOptions(storage=folder / "runs", workers=workers, max_concurrent=1, isolation=isolation)  # type: ignore[arg-type]
        ended: list[str] = []

        def note(event: SweepEvent) -> None:
            if event.kind == "failed":
                raise SystemExit(f"a trial failed: {event.reason}")
            ended.append(event.kind)

        planned = [near_empty(seed) for seed in range(trials + 1)]
        run_sweep(planned, folder / "ledger.db", DataPaths(train_file=folder / "text.txt"), options, note)
        stamps = sorted(
            (folder / "runs" / "runs").glob("*/final*/last/state.pt"), key=lambda path: path.stat().st_mtime
        )
        times = [path.stat().st_mtime for path in stamps]
    return [after - before for before, after in itertools.pairwise(times)]


def in_process(trials: int) -> list[float]:
    """Seconds between the ends of trials of a plain Optuna study, the first of them left out."""
    import optuna
    import torch

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder, ended = Path(name), []
        (folder / "text.txt").write_text("\n".join(f"sentence number {i} of a small corpus" for i in range(64)))
        paths = DataPaths(train_file=folder / "text.txt")

        def objective(trial: optuna.Trial) -> float:
            trial_folder = folder / str(trial.number)
            trial_folder.mkdir()
            best = train(near_empty(trial.number).run, paths, trial_folder, lambda point: False).best
            ended.append(time.perf_counter())
            return best

        optuna.create_study(direction="maximize").optimize(objective, n_trials=trials + 2)
    return [after - before for before, after in itertools.pairwise(ended[1:])]


def table(warm: Sequence[float], cold: Sequence[float], plain: Sequence[float]) -> str:
    """Markdown: medians, spread and the ratio, against the bars."""
    slow, fast = statistics.median(cold), statistics.median(warm)
    names = ("slot (warm)", "trial (a Train run each)", "plain Optuna in process, one rank")
    rows = ["| isolation | trials | median s | min s | max s |", "|---|---|---|---|---|"]
    for name, seconds in zip(names, (warm, cold, plain), strict=True):
        middle = statistics.median(seconds)
        rows.append(f"| {name} | {len(seconds)} | {middle:.3f} | {min(seconds):.3f} | {max(seconds):.3f} |")
    rows += ["", f"ratio {slow / fast:.1f} (bar {BAR_RATIO:g}); warm {fast:.3f} s (bar {BAR_SECONDS:g} s)"]
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=12, help="gaps to measure on the warm slot")
    parser.add_argument("--cold-trials", type=int, default=12, help="gaps to measure with a Train run per trial")
    parser.add_argument("--workers", type=int, default=2, help="ranks of a trial")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ray_cluster(Path(folder)):
        # One more gap than is asked: the first follows the imports of the group's first job.
        warm = gaps("slot", given.trials + 1, given.workers)[1:]
        cold = gaps("trial", given.cold_trials, given.workers)
    print(table(warm, cold, in_process(given.trials)))


if __name__ == "__main__":
    main()
