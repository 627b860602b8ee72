"""A whole search: DiffCSE's released recipe (grid, HF loop, SentEval's evaluation) against ours, both really run.

The grid is a reduced form of the paper's: 12 cells with 2 seeds, 400 steps each. The released side trains all of it.
Ours searches the same cells by `sampler: tpe` with poor runs stopped. Then both picks are trained with fresh
seeds: what the one loses to the other is its regret, so far as there are two. CPU seconds of one thread; the sides take
turns. Every run is kept in the results file, and the same command goes on where it ended; what
a sitting stores of the generator's edits is stored, and paid, again in the next.

    python -m benchmarks.sweep [--quick] [--results FILE] [--minutes 60] [--data DIR] [--report]
"""

import argparse
import contextlib
import itertools
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.evaluation.released import RELEASED
from benchmarks.step.setting import DATA, one_thread, sentences
from benchmarks.sweep import sides as sweep_sides
from benchmarks.sweep.rows import Results, Row
from benchmarks.sweep.sides import Bench, OutOfTime
from cse_train.data_paths import DataPaths
from cse_train.evaluate.pairs import load_pairs
from cse_train.numerics import keep_freed_memory
from search_spaces.catalog import load_space
from search_spaces.cells import resolve

FILE = Path(__file__).resolve().parents[2] / "docs" / "results" / "sweep_cost.jsonl"
BAR = 10.0
SPACE = """version: 1
id: sweep_benchmark
title: "DiffCSE: learning rate x masking ratio x weight, reduced"
method: diffcse
seeds: {seeds}
set:
  train.encoder: wiki-l2-h128
  method.generator: wiki-l1-h64
  method.edits: stored
  train.corpus: file
  train.dev: sts_dev
  train.batch_size: 64
  train.examples: {examples}
  train.evaluations: {evaluations}
space:
  train.learning_rate: {{grid: [{rates}]}}
  method.masking_ratio: {{grid: [{ratios}]}}
  method.lambda_weight: {{grid: [0.005, 0.05]}}
search: {{sampler: tpe, scheduler: asha, startup: 3, num_samples: {samples}}}
"""
FULL = {
    "seeds": 2,
    "examples": 25_600,
    "evaluations": 3,  # the released trainer evaluates every 125 steps
    "rates": "3.0e-4, 1.0e-3, 3.0e-3",
    "ratios": "0.15, 0.3",
    "samples": 8,
}
QUICK = {"seeds": 1, "examples": 256, "evaluations": 1, "rates": "1.0e-3", "ratios": "0.3", "samples": 1}
TURN = 3
"""Released runs for one of ours."""


def bench_of(setting: dict[str, object], file: Path, work: Path, data: Path) -> Bench:
    """The space, the corpus and the pairs; `work` must outlive it."""
    (work / "space.yaml").write_text(SPACE.format(**setting), encoding="utf8")
    texts = sentences(int(str(setting["examples"])), data, every=14)
    (work / "text.txt").write_text("\n".join(texts), encoding="utf8")
    paths = DataPaths.from_folder(data, train_file=work / "text.txt", cache=work / "cache")
    names = sorted(RELEASED, key=lambda name: name != "sts_dev")
    resolved = resolve(
        load_space(work / "space.yaml"),
    )
    return Bench(resolved, Results(file), paths, texts, [load_pairs(name, paths) for name in names])


def in_turn(bench: Bench) -> Iterator[Row]:
    """Runs of both sides, and then the fresh seeds."""
    sides = {sweep_sides.search(bench): 1, sweep_sides.released(bench): TURN}
    turn = [side for side, runs in sides.items() for _ in range(runs)]
    over: set[Iterator[Row]] = set()
    for side in itertools.cycle(turn):
        row = next(side, None)
        if row is not None:
            yield row
            continue
        over.add(side)
        if len(over) == len(sides):
            break
    yield from sweep_sides.truth(bench)


def report(bench: Bench) -> list[str]:
    """Markdown: what each side cost and picked, and what the saving is made of."""
    released, ours = bench.results.of("released"), bench.results.of("ours")
    runs = len(bench.resolved.cells()) * len(bench.resolved.space.seeds)
    lines = ["| side | runs | steps, CPU s | evaluation, CPU s | search, CPU s | CPU s |", "|---" * 6 + "|"]
    for name, rows, search in (("released", released, 0.0), ("ours", ours, bench.search_s)):
        steps, evaluation = (sum(getattr(row, part) for row in rows) for part in ("step_s", "evaluation_s"))
        total = steps + evaluation + search
        lines.append(f"| {name} | {len(rows)} | {steps:.0f} | {evaluation:.0f} | {search:.1f} | {total:.0f} |")
    if len(bench.picks) < 2:
        return [*lines, f"\nPARTIAL: {len(released)} of {runs} released runs, {len(ours)} of ours; run it again"]
    return [*lines, "", *savings(released, ours, bench.search_s), "", *judged(bench)]


def savings(released: Sequence[Row], ours: Sequence[Row], search_s: float) -> list[str]:
    """The factor, split by exchanging one part after the other: evaluation, step, search."""
    whole = [row for row in ours if row.state == "done"]
    evaluation, step = (float(np.mean([getattr(r, part) for r in whole])) for part in ("evaluation_s", "step_s"))
    chain = [
        sum(row.seconds for row in released),
        sum(row.step_s for row in released) + len(released) * evaluation,
        len(released) * (step + evaluation),
        sum(row.seconds for row in ours) + search_s,
    ]
    factors = [before / after for before, after in itertools.pairwise(chain)]
    total = chain[0] / chain[-1]
    named = ", ".join(
        f"{name} x {factor:.2f}" for name, factor in zip(("evaluation", "step", "search"), factors, strict=True)
    )
    held = "held" if total >= BAR else "MISSED"
    return [f"CPU time / ours: {total:.1f} (bar {BAR:g}) {held}; split: {named}"]


def judged(bench: Bench) -> list[str]:
    """The picks, and by how much ours is worse with fresh seeds."""
    lines = [f"{side} picks {dict(cell.key)}" for side, cell in bench.picks.items()]
    if bench.picks["ours"].id == bench.picks["released"].id:
        return [*lines, "one pick, no regret between them: held"]
    rows = bench.results.of("truth")
    scores = {side: [r.best for r in rows if r.cell == dict(cell.key)] for side, cell in bench.picks.items()}
    if min(map(len, scores.values())) < 2:
        return [*lines, "the picks were not trained with fresh seeds yet"]
    difference = np.array(scores["released"]) - np.array(scores["ours"])
    error = float(difference.std(ddof=1) / np.sqrt(len(difference)))
    held = "held" if difference.mean() <= error else "MISSED"
    return [*lines, f"ours is {difference.mean():+.2f} points worse, standard error {error:.2f}: {held}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=FILE)
    parser.add_argument("--minutes", type=float, default=60.0, help="no further run begins after this")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--quick", action="store_true", help="two cells, four steps each: whether all parts work")
    parser.add_argument("--report", action="store_true", help="what the file has, nothing trained")
    given = parser.parse_args()
    one_thread()
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "quick.jsonl") if given.quick else given.results
        bench = bench_of(QUICK if given.quick else FULL, file, Path(folder), given.data)
        bench.until = time.monotonic() + 60 * (0 if given.report else given.minutes)
        before = len(bench.results.rows)
        with contextlib.suppress(OutOfTime):
            for number, row in enumerate(in_turn(bench), 1):
                label = f"{row.side} {dict(row.cell)} seed {row.seed}"
                if number > before:
                    print(f"{label}: {row.best:.2f}, {row.seconds:.1f} CPU s", flush=True)
        print(f"\nload {os.getloadavg()[0]:.1f}\n\n" + "\n".join(report(bench)))
        if given.quick:
            print("\nquick: this shows that all parts work; so few steps say nothing of the bar")


if __name__ == "__main__":
    main()
