"""The two sides of `benchmarks.sweep`: a grid by the released recipe, and the project's own search by its own loop.

Both are generators that make one run a turn, so that they can take turns on a machine whose speed changes, and both
ask the results file first. A search that is begun again proposes what it proposed before, since it is told the same.
"""

import gc
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.search.replay import Rungs
from benchmarks.sweep import released as sweep_released
from benchmarks.sweep.rows import Curve, Results, Row, Side
from cluster.plan.match import RunMatcher
from cluster.search.search import make_search
from cse_train.config import RunConfig
from cse_train.data_paths import DataPaths
from cse_train.evaluate.pairs import Pairs
from cse_train.numerics import fast_fp32
from cse_train.training.loop import Point, Session
from search_spaces.cells import Cell, ResolvedSpace

Stops = Callable[[int, float], bool]
"""Asked with the number of an evaluation, from 1, and the best score so far."""
TRUTH_SEEDS = (100, 101, 102, 103)


class OutOfTime(Exception):
    """A run is missing and may not be trained now."""


@dataclass
class Bench:
    """What both sides share."""

    resolved: ResolvedSpace
    results: Results
    paths: DataPaths
    texts: list[str]
    sets: list[Pairs]
    """What the released evaluation encodes, the dev set first."""
    search_s: float = 0.0
    """CPU seconds of proposing cells and of the pick."""
    until: float = float("inf")
    """Moment of `time.monotonic` after which nothing is trained any more."""
    picks: dict[Side, Cell] = field(default_factory=dict)

    def run(self, side: Side, cell: Cell, seed: int, stops: Stops = lambda number, best: False) -> Row:
        """The recorded row, told to `stops` as it was when it was trained, or else a new one. Raises OutOfTime."""
        stored = self.results.find(side, cell.key, seed)
        if stored is not None:
            best = np.maximum.accumulate(stored.scores)
            for number in range(1, min(len(best), self.evaluations - 1) + 1):
                stops(number, float(best[number - 1]))
            return stored
        if time.monotonic() > self.until:
            raise OutOfTime
        with tempfile.TemporaryDirectory() as folder:
            curve = self._train(side, cell.run(seed), Path(folder), stops)
        row = Row(side, dict(cell.key), seed, *curve, load=os.getloadavg()[0])
        self.results.add(row)
        return row

    @property
    def evaluations(self) -> int:
        return self.resolved.cells()[0].run(0).train.evaluations

    def _train(self, side: Side, run: RunConfig, folder: Path, stops: Stops) -> Curve:
        if side == "released":
            curve = sweep_released.train(run, self.paths, folder, self.texts, self.sets)
        else:
            curve = ours(run, self.paths, folder, stops)
        gc.collect()  # a Trainer and its model hold each other
        return curve


class Timed:
    """An evaluator that counts its CPU seconds."""

    def __init__(self, evaluator: Callable[..., object]) -> None:
        self.evaluator, self.seconds = evaluator, 0.0

    def __call__(self, *given: object) -> object:
        begun = time.process_time()
        try:
            return self.evaluator(*given)
        finally:
            self.seconds += time.process_time() - begun


def ours(run: RunConfig, paths: DataPaths, folder: Path, stops: Stops) -> Curve:
    """`cse_train.training.loop.train` with its evaluations timed apart."""
    scores: list[float] = []

    def report(point: Point) -> bool:
        scores.append(point.metrics[run.train.dev])
        return len(scores) < run.train.evaluations and stops(len(scores), point.best)

    begun = time.process_time()
    with fast_fp32():
        session = Session.open(run, paths, folder)
        timed = Timed(session.evaluator)
        session.evaluator = timed
        outcome = session.go(report)
    return Curve(outcome.state, scores, time.process_time() - begun - timed.seconds, timed.seconds)


def released(bench: Bench) -> Iterator[Row]:
    """Every cell with every seed of the space; the pick is the cell of the best mean."""
    cells, seeds = bench.resolved.cells(), bench.resolved.space.seeds
    best: dict[str, list[float]] = {cell.id: [] for cell in cells}
    for seed in seeds:
        for cell in cells:
            row = bench.run("released", cell, seed)
            best[cell.id].append(row.best)
            yield row
    bench.picks["released"] = max(cells, key=lambda cell: float(np.mean(best[cell.id])))


def search(bench: Bench) -> Iterator[Row]:
    """What `search:` of the space says, one seed a cell, poor runs stopped; the pick is the best finished run."""
    stops = Rungs(bench.evaluations)
    done: list[tuple[float, Cell]] = []
    begun = time.process_time()
    proposer = make_search(bench.resolved, (), RunMatcher(bench.resolved, lambda run: ""), seeds=(0,))
    while (cell := proposer.propose()) is not None:
        bench.search_s += time.process_time() - begun
        row = bench.run("ours", cell, 0, stops)
        yield row
        begun = time.process_time()
        examples = round(len(row.scores) / bench.evaluations * cell.run(0).train.examples)
        proposer.observe(cell, 0, row.best, row.state, examples)
        if row.state == "done":
            done.append((row.best, cell))
    bench.picks["ours"] = max(done, key=lambda run: run[0])[1]
    bench.search_s += time.process_time() - begun


def truth(bench: Bench) -> Iterator[Row]:
    """Fresh seeds of the picks that differ, by our loop; to be asked when all sides are through."""
    picks = {cell.id: cell for cell in bench.picks.values()}
    for seed in TRUTH_SEEDS if len(picks) > 1 else ():
        for cell in picks.values():
            yield bench.run("truth", cell, seed)
