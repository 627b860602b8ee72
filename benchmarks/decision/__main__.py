"""CPU time of a decided value: E8, S3 and D7 at profile tiny, by us and by the released recipe, both really run.

The released recipe trains every row with three seeds, evaluates as released, and says of a row what Welch's interval
says of it, the rows of a table sharing 5%; a tie by the same interval. Ours is what `cse reproduce --until decided` did
(the bundle of docs/results/tiny.md): its words, and its runs at the CPU time that a run of each row takes here. The
sides take turns row by row, one thread each. Every run is kept in the results file, and the same command goes on where
it ended. Not counted: the start of Ray, what the driver takes of a trial, and what is done once for all runs of both
sides: the corpus in tokens, the kernels' calibration.

    python -m benchmarks.decision [--results FILE] [--minutes 60] [--data DIR] [--report]
"""

import argparse
import contextlib
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.decision import authors
from benchmarks.decision.tables import RESULTS, Cost, Verdicts, key_of
from benchmarks.evaluation.released import RELEASED
from benchmarks.step.setting import DATA, one_thread
from benchmarks.sweep.rows import Curve, Results, Row, Side
from benchmarks.sweep.sides import OutOfTime, ours
from cse_train.data_paths import DataPaths
from cse_train.evaluate.pairs import load_pairs
from cse_train.numerics import keep_freed_memory
from search_spaces.catalog import load_space
from search_spaces.cells import Cell, ResolvedSpace, resolve

FILE = RESULTS / "decision_cost.jsonl"
TABLES = ("E8", "S3", "D7")
SEEDS = (0, 1, 2)
EVALUATIONS = 2
"""Of a released run, whose trainer evaluates every 125 steps: with as many as ours it would pay five times as much."""
BAR = 10.0


@dataclass
class Bench:
    """The tables' rows at their scale, and what is known of their runs."""

    tables: Mapping[str, ResolvedSpace]
    results: Results
    paths: DataPaths
    until: float
    """Moment of `time.monotonic` after which nothing is trained any more."""

    def run(self, side: Side, table: str, cell: Cell, seed: int) -> Row:
        """The recorded row, or else a new one. Raises OutOfTime."""
        key = {"table": table, **cell.key}
        stored = self.results.find(side, key, seed)
        if stored is not None:
            return stored
        if time.monotonic() > self.until:
            raise OutOfTime
        with tempfile.TemporaryDirectory() as folder:
            curve = self._train(side, cell, seed, Path(folder))
        row = Row(side, key, seed, *curve, load=os.getloadavg()[0])
        self.results.add(row)
        return row

    def _train(self, side: Side, cell: Cell, seed: int, folder: Path) -> Curve:
        run = cell.run(seed)
        if side == "ours":
            return ours(run, self.paths, folder, lambda number, best: False)
        sets = [load_pairs(name, self.paths) for name in sorted(RELEASED, key=lambda name: name != run.train.dev)]
        return authors.train(replace(run, train=replace(run.train, evaluations=EVALUATIONS)), self.paths, folder, sets)

    def prepare(self) -> None:
        """Does what only the first run of a machine pays for."""
        for resolved in self.tables.values():
            with tempfile.TemporaryDirectory() as folder:
                run = resolved.cells()[0].run(0)
                short = replace(run.train, examples=run.train.batch_size, evaluations=1)
                ours(replace(run, train=short), self.paths, Path(folder), lambda number, best: False)

    def in_turn(self) -> Iterator[Row]:
        """Of each row one run of ours, whose CPU time stands for its others, and the released recipe's three."""
        for table, resolved in self.tables.items():
            for cell in resolved.cells():
                yield self.run("ours", table, cell, 0)
                for seed in SEEDS:
                    yield self.run("released", table, cell, seed)

    def costs(self, table: str) -> Mapping[str, Cost]:
        """Side -> its words and their cost. Raises OutOfTime where runs are missing."""
        cells, verdicts = self.tables[table].cells(), Verdicts.read(table)
        seconds = {key_of(cell.key): self.run("ours", table, cell, 0).seconds for cell in cells}
        rows = {key_of(cell.key): [self.run("released", table, cell, seed) for seed in SEEDS] for cell in cells}
        scores = {key: [row.best for row in several] for key, several in rows.items()}
        paid = sum(row.seconds for several in rows.values() for row in several)
        return {"released": verdicts.released(scores, paid), "ours": verdicts.ours(seconds)}


def report(costs: Mapping[str, Mapping[str, Cost]]) -> list[str]:
    """Markdown: each table and side, and how much a decided value costs."""
    lines = [
        "| table | side | runs | CPU s | decided | words | CPU min a decided value |",
        "|---|---|--:|--:|--:|---|--:|",
    ]
    for table, sides in costs.items():
        for side, cost in sides.items():
            lines.append(_line(table, side, cost))
    whole = {side: _sum([sides[side] for sides in costs.values()]) for side in ("released", "ours")}
    lines += [_line("all", side, cost) for side, cost in whole.items()]
    released, ours = whole["released"], whole["ours"]
    if not ours.decided:
        return lines
    times = released.seconds / max(1, released.decided) / (ours.seconds / ours.decided)
    if released.decided:
        said = f"A decided value costs the released recipe {times:.1f} times as much"
    else:
        said = f"The released recipe decides nothing; one decided value would have cost it {times:.1f} times as much"
    return [*lines, "", f"{said} (bar {BAR:g}): {'held' if times >= BAR else 'MISSED'}"]


def _sum(costs: list[Cost]) -> Cost:
    words = [word for cost in costs for word in cost.words]
    return Cost(sum(cost.runs for cost in costs), sum(cost.seconds for cost in costs), words)


def _line(table: str, side: str, cost: Cost) -> str:
    words = ", ".join(f"{cost.words.count(word)} {word}" for word in sorted(set(cost.words)))
    each = f"{cost.seconds / cost.decided / 60:.1f}" if cost.decided else "none is"
    of = f"{cost.decided} of {len(cost.words)}"
    return f"| {table} | {side} | {cost.runs} | {cost.seconds:.0f} | {of} | {words} | {each} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=FILE)
    parser.add_argument("--minutes", type=float, default=60.0, help="no further run begins after this")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--report", action="store_true", help="what the file has, nothing trained")
    given = parser.parse_args()
    one_thread()
    keep_freed_memory()
    tables = {name: resolve(load_space(name), "tiny") for name in TABLES}
    until = time.monotonic() + 60 * (0 if given.report else given.minutes)
    with tempfile.TemporaryDirectory() as cache:
        bench = Bench(tables, Results(given.results), DataPaths.from_folder(given.data, cache=Path(cache)), until)
        before = len(bench.results.rows)
        if not given.report:
            bench.prepare()
        with contextlib.suppress(OutOfTime):
            for number, row in enumerate(bench.in_turn(), 1):
                if number > before:
                    print(
                        f"{row.side} {dict(row.cell)} seed {row.seed}: {row.best:.2f}, {row.seconds:.1f} CPU s",
                        flush=True,
                    )
        print(f"\nload {os.getloadavg()[0]:.1f}\n")
        try:
            print("\n".join(report({table: bench.costs(table) for table in tables})))
        except OutOfTime:
            print(f"PARTIAL: {len(bench.results.rows)} runs; run it again")


if __name__ == "__main__":
    main()
