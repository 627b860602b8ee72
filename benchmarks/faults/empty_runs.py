"""A thousand runs that do next to nothing, as a driver of their own: `python -m benchmarks.faults.empty_runs FOLDER`.

What the driver weighs and holds is written to `held.json` after the first hundredth and the last run.
"""

import contextlib
import json
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis.ledger import Ledger
from analysis.run_folder import RunFolder
from cluster.plan.planner import plan
from cluster.runtime.options import SweepOptions
from cluster.sweep.run_sweep import run_sweep
from cse_train.data_paths import DataPaths
from cse_train.training.loop import Outcome, Point
from search_spaces.catalog import load_space

RUNS, EARLY = 1000, 100
SPACE = f"""version: 1
id: empty
method: simcse
seeds: {RUNS}
set:
  train.encoder: words-l1-h64
  train.corpus: generated
  train.dev: "generated_dev:40"
  train.examples: 64
  train.batch_size: 16
  train.evaluations: 2
space:
  method.temperature: {{grid: [0.05]}}
"""


def train(run: Any, paths: Any, folder: Path, report: Any, **how: Any) -> Any:
    """Two points and a file, as `cse_train.training.loop.train` would leave them."""
    points = []
    for step in (1, 2):
        score = {run.train.dev: float(run.train.seed + step)}
        points.append(Point(32 * step, step, 0.01, score, score[run.train.dev], 32 * step))
        states = RunFolder(folder).last
        states.mkdir(exist_ok=True)
        (states / f"{step}").write_text(str(step), encoding="utf8")
        if report(points[-1]):
            break
    last = points[-1]
    return Outcome(False, last.examples, last.best, last.best_examples, last.seconds, tuple(points))


def opened() -> list[str]:
    """Returns the paths of this process's open files, and the kind of those without one (socket, pipe)."""
    files = []
    for handle in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            files.append(handle.readlink().as_posix().partition(":[")[0])
    return files


@dataclass
class Watch:
    """Counts finished runs as `on_event`; notes what is held at run `EARLY` and at the last one."""

    folder: Path
    times: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    """CPU seconds of the driver at each finish: a starved machine does not stretch them."""
    held: list[dict[str, float]] = field(default_factory=list)
    opened: list[list[str]] = field(default_factory=list)

    def __call__(self, event: Any) -> None:
        if event.kind != "done":
            return
        self.times.append(time.monotonic())
        self.cpu.append(time.process_time())
        if len(self.times) in (EARLY, RUNS):
            self.held.append(holdings())
            self.opened.append(opened())
        if len(self.times) == RUNS:
            measured = {"times": self.times, "cpu": self.cpu, "held": self.held, "opened": self.opened}
            (self.folder / "held.json").write_text(json.dumps(measured), encoding="utf8")


def holdings() -> dict[str, float]:
    """Memory of this driver in MB, its open files, those of Ray's processes below it, and what the cluster keeps."""
    import psutil
    import ray
    from ray.util.placement_group import placement_group_table
    from ray.util.state import list_actors

    driver = psutil.Process()
    below = [
        item for item in driver.children(recursive=True) if item.is_running() and "ray::" in " ".join(item.cmdline())
    ]
    here = ray.get_runtime_context().gcs_address
    groups = [item for item in placement_group_table().values() if item["state"] != "REMOVED"]
    return {
        "memory": driver.memory_info().rss / 1e6,
        "files": driver.num_fds(),
        "ray_files": sum(item.num_fds() for item in below),
        "ray_processes": len(below),
        "actors": len(list_actors(here, filters=[("state", "=", "ALIVE")], limit=10_000)),
        "placement_groups": len(groups),
    }


def main(folder: Path) -> int:
    (folder / "empty.yaml").write_text(SPACE, encoding="utf8")
    url = folder / "ledger.db"
    ledger = Ledger.open(url)
    runs = plan([load_space(str(folder / "empty.yaml"))], None, None, ledger, DataPaths()).spaces[0].runs
    ledger.close()
    options = SweepOptions(storage=folder / "results", max_concurrent=2, function=f"{__spec__.name}:train")
    outcome = run_sweep(runs, url, DataPaths(), options, Watch(folder))
    return int(outcome.done != RUNS)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main(Path(sys.argv[1])))
