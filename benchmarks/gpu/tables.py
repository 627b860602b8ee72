"""E7, E8 and S3 at profile small with twelve seeds: every run of them, on generated text, seed by seed.

As many processes as `packing` found fastest share the card. What is not done when the time is over is estimated by the
runs that were: seconds a run times runs, which supposes that seeds take equal time and that nothing else is needed. The
scores are those of generated text and say nothing about the papers; suites of real data are not scored.
"""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu.results import Call, called
from benchmarks.gpu.small_runs import QUICK, SETTINGS, processes

CELLS = Path(__file__).with_name("cells.json")
SEEDS, QUICK_SEEDS, QUICK_CELLS = 12, 2, 3
USUAL = 4
"""Processes where packing was not measured."""


def runs(quick: bool) -> dict[str, dict[str, Any]]:
    """Name -> settings of every run, all cells of a seed together; text and dev set are generated."""
    cells = json.loads(CELLS.read_text(encoding="utf8"))[: QUICK_CELLS if quick else None]
    replaced = {name: SETTINGS[name] for name in ("train.corpus", "train.dev")} | (QUICK if quick else {})
    return {
        f"seed {seed}, {cell['table']}, cell {number}": cell["settings"] | replaced | {"train.seed": seed}
        for seed in range(QUICK_SEEDS if quick else SEEDS)
        for number, cell in enumerate(cells)
    }


def fastest(packing: Mapping[str, Any]) -> int:
    """Returns the number of processes that did most runs a second."""
    counts = [item["figures"] for item in packing.values() if not item["error"]]
    return max(counts, key=lambda of: of["runs_a_second"], default={"processes": USUAL})["processes"]


def summary(done: int, every: int, seconds: float, count: int) -> list[str]:
    """Returns lines with the measured time, and the time that follows from it for all runs."""
    took = f"{done} of {every} runs took {seconds / 60:.1f} min in {count} processes on one card"
    if done == every:
        return [f"{took}: measured in full, without the start of the processes."]
    rest = f"all {every} would take {every * seconds / done / 60:.1f} min" if done else "none ended"
    return [f"{took}. An estimate, seconds a run times runs: {rest}."]


def train(call: Call, left: Sequence[str], every: Mapping[str, dict[str, Any]], count: int) -> None:
    """Train what is left; the clock of earlier calls goes on."""
    before = call.results.facts.get("seconds", 0.0)
    with processes(count, call.quick) as members:
        begun = time.monotonic()
        for ended in members.made([every[name] for name in left]):
            seconds = before + ended.ended - begun
            call.results.facts = {"seconds": seconds, "processes": count}
            call.results.lines = summary(len(call.results.items) + 1, len(every), seconds, count)
            call.results.add(left[ended.number], ended.ended - ended.begun)
    print("\n".join(call.results.lines), flush=True)


def main() -> None:
    call = called(__doc__)
    every = runs(call.quick)
    if left := [name for name in every if name not in call.results.items]:
        train(call, left, every, 2 if call.quick else fastest(call.of_part("packing")))


if __name__ == "__main__":
    main()
