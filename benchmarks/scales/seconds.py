"""What a run of each scale costs, all measured in one sitting: bundles come from days on which machines differed."""

import json
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.sweep.rows import Curve
from benchmarks.sweep.sides import ours
from cse_train.config import RunConfig
from cse_train.data_paths import DataPaths
from cse_train.training.optimiser import evaluation_steps, steps_in
from search_spaces.catalog import load_space
from search_spaces.cells import resolve

FILE = "scales_seconds.json"
STEPS, EVALUATIONS = 40, 2
Seconds = Mapping[str, float]
"""`TABLE ENCODER EXAMPLES` -> CPU seconds of a run of the default row, dev evaluations included."""


def name_of(table: str, encoder: str, examples: int) -> str:
    return f"{table} {encoder} {examples}"


def stored(folder: Path) -> Seconds:
    """What was measured last."""
    file = folder / FILE
    return json.loads(file.read_text(encoding="utf8")) if file.exists() else {}


def default_runs(sweeps: Iterable[Mapping[str, Any]]) -> dict[str, RunConfig]:
    """Table at its scale -> the paper's default row there, with seed 0; of tables that have such a row."""
    runs = {}
    for spec in (sweep["spec"] for sweep in sweeps):
        resolved = resolve(load_space(spec["space"]), spec["profile"], spec["set"])
        default = resolved.space.paper.default if resolved.space.paper else None
        if not default:
            continue
        for cell in resolved.cells():
            if all(cell.key.get(name) == value for name, value in default.items()):
                run = cell.run(0)
                runs[name_of(resolved.space.id, run.train.encoder, run.train.examples)] = run
    return runs


def measure(sweeps: Iterable[Mapping[str, Any]], data: Path, to: Path) -> None:
    """Time STEPS steps and EVALUATIONS dev evaluations of each, one thread, and keep what its whole run comes to.

    Every part is measured twice and counts at the faster: the first pays for what a sweep pays once.
    """
    runs = default_runs(sweeps)
    parts: dict[str, list[Curve]] = {}
    with tempfile.TemporaryDirectory() as work:
        paths = DataPaths.from_folder(data, cache=Path(work, "cache"))
        for run in (*map(_short, runs.values()), *map(_short, runs.values())):
            timed = parts.setdefault(repr(run), [])
            if len(timed) < 2:
                with tempfile.TemporaryDirectory(dir=work) as folder:
                    timed.append(ours(run, paths, Path(folder), lambda number, best: False))
                print(
                    f"{run.method} {run.train.encoder}: {timed[-1].step_s:.1f} + {timed[-1].evaluation_s:.1f} CPU s",
                    flush=True,
                )
    seconds = {name: round(_whole(run, parts[repr(_short(run))]), 1) for name, run in runs.items()}
    (to / FILE).write_text(json.dumps(seconds, indent=1, sort_keys=True) + "\n")


def _short(run: RunConfig) -> RunConfig:
    return replace(run, train=replace(run.train, examples=STEPS * run.train.batch_size, evaluations=EVALUATIONS))


def _whole(run: RunConfig, timed: Iterable[Curve]) -> float:
    """CPU seconds of the whole run."""
    step, evaluation = (min(getattr(curve, part) for curve in timed) for part in ("step_s", "evaluation_s"))
    return steps_in(run.train) * step / STEPS + len(evaluation_steps(run.train)) * evaluation / EVALUATIONS
