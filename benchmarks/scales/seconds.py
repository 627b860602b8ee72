"""What a run of each scale costs, all measured in one sitting: bundles come from days on which machines differed."""

import json
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.sweep.sides import ours
from cse_train.config import RunConfig
from cse_train.data_paths import DataPaths
from search_spaces.catalog import load_space
from search_spaces.cells import resolve

FILE = "scales_seconds.json"
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
        paper = resolved.space.paper
        default = paper.default if paper else None
        for cell in resolved.cells() if default else ():
            if default and all(cell.key.get(name) == value for name, value in default.items()):
                run = cell.run(0)
                runs[name_of(resolved.space.id, run.train.encoder, run.train.examples)] = run
    return runs


def measure(sweeps: Iterable[Mapping[str, Any]], data: Path, to: Path) -> None:
    """Train each of them twice, one thread, and keep the faster: the first pays for what a sweep pays once."""
    seconds: dict[str, float] = {}
    runs = default_runs(sweeps)
    with tempfile.TemporaryDirectory() as work:
        paths = DataPaths.from_folder(data, cache=Path(work, "cache"))
        for turn in range(2):
            for name, run in runs.items():
                with tempfile.TemporaryDirectory(dir=work) as folder:
                    curve = ours(run, paths, Path(folder), lambda number, best: False)
                took = curve.step_s + curve.evaluation_s
                seconds[name] = round(min(took, seconds.get(name, took)), 2)
                print(f"{turn + 1} {name}: {took:.1f} CPU s, {curve.evaluation_s:.1f} of them evaluations", flush=True)
    (to / FILE).write_text(json.dumps(seconds, indent=1, sort_keys=True) + "\n")
