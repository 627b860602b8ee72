"""CPU time of a pick that holds up: by our search, by Ray Tune over the authors' loop, and by the authors' grid.

The cells are those of a recorded grid. Ray Tune (OptunaSearch, ASHA) and our search both really run on it, one trial
after the other on one thread, with an evaluation of the dev set alone wherever the recording has one; what an example
costs each is measured there, proposals included. How good a pick is, the recording says: each strategy is replayed on
it many times, and its pick is judged by the seeds that it did not draw. The released recipe trains every cell with one
seed at the price of an example in the authors' loop. The share of the grid's examples that our search needs is the
smallest whose mean regret is no larger than that of the peer; the price of the shares is what a pick costs.

    python -m benchmarks.decision.picks [--results FILE] [--minutes 60] [--repetitions 800] [--data DIR] [--report]
"""

import argparse
import contextlib
import dataclasses
import itertools
import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.decision import tune
from benchmarks.decision.tables import RESULTS
from benchmarks.search.__main__ import Outcome, interval, searched
from benchmarks.search.record_grid import CURVES, read
from benchmarks.search.replay import Grid, grid_of
from benchmarks.search.strategies import STRATEGIES, grid
from benchmarks.step.setting import DATA, one_thread
from benchmarks.sweep import sides
from benchmarks.sweep.rows import Results, Side
from benchmarks.sweep.sides import Bench, OutOfTime
from cse_train.data_paths import DataPaths
from cse_train.evaluate.pairs import load_pairs
from cse_train.numerics import keep_freed_memory
from search_spaces.cells import ResolvedSpace
from search_spaces.space import SearchConfig

FILE = RESULTS / "pick_cost.jsonl"
GRID = "recorded_grid"
SHARE = 0.2
"""Of the grid's examples, for Tune and for the search that is really run."""
SHARES = (0.08, 0.09, 0.1, 0.11, 0.12, 0.13, 0.14, 0.16, 0.18, 0.2)
"""Of the grid's examples, for our search when replayed."""
OURS = "the same, picked as by cse best"
BARS = {"released": 10.0, "tune": 5.0}
"""Times our cost."""


def space_of(resolved: ResolvedSpace) -> ResolvedSpace:
    """The grid's space, searched as our users search it."""
    samples = round(SHARE * len(resolved.cells()))
    search = SearchConfig(sampler="tpe", scheduler="asha", num_samples=samples)
    return dataclasses.replace(resolved, space=dataclasses.replace(resolved.space, search=search))


def price(bench: Bench, side: Side) -> float:
    """CPU seconds of a thousand examples, evaluations and proposals among them."""
    rows = bench.results.of(side)
    each = bench.resolved.cells()[0].run(0).train.examples / bench.evaluations
    spent = sum(row.seconds for row in rows) + (bench.search_s if side == "ours" else 0.0)
    return 1000 * spent / sum(each * len(row.scores) for row in rows)


@dataclass(frozen=True)
class Pick:
    """What a side's picks are worth, and what one costs."""

    share: float
    """Of the grid's examples."""
    regret: np.ndarray
    seconds: float


def replayed(recorded: Grid, repetitions: int) -> dict[str, dict[float, Outcome]]:
    """Side -> share -> its picks; the same draws of seeds for all."""

    def at(share: float, name: str) -> Outcome:
        strategies = {name: {**STRATEGIES, "grid": grid}[name]}
        return searched(lambda repetition: recorded, share, repetitions, strategies)[name]

    return {
        "released": {1.0: at(1.0, "grid")},
        "tune": {SHARE: at(SHARE, "TPE + ASHA (Optuna)")},
        "ours": {share: at(share, OURS) for share in SHARES},
    }


def picks(
    outcomes: Mapping[str, Mapping[float, Outcome]], prices: Mapping[str, float], examples: float
) -> dict[str, tuple[Pick, Pick]]:
    """Peer -> its pick, and the cheapest of ours that is as good in the mean, or the dearest where none is.

    Which share that is, the even repetitions say; both picks are judged by the odd ones.
    """
    pairs = {}
    for side in BARS:
        ((share, theirs),) = outcomes[side].items()
        good = [s for s, ours in outcomes["ours"].items() if ours.regret[::2].mean() <= theirs.regret[::2].mean()]
        chosen = min(good, default=max(outcomes["ours"]))
        mine = outcomes["ours"][chosen]
        pairs[side] = (
            Pick(share, theirs.regret[1::2], share * examples * prices[side] / 1000),
            Pick(chosen, mine.regret[1::2], chosen * examples * prices["ours"] / 1000),
        )
    return pairs


def report(pairs: Mapping[str, tuple[Pick, Pick]], prices: Mapping[str, float]) -> list[str]:
    """Markdown: each peer beside ours."""
    lines = [
        "| side | share of the grid | CPU s, 1,000 examples | mean regret | ours less theirs | CPU s | of ours |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for side, (theirs, ours) in pairs.items():
        times, less = theirs.seconds / ours.seconds, ours.regret - theirs.regret
        low, high = interval(less)
        held = "held" if times >= BARS[side] and low <= 0 else "MISSED"
        for who, pick, difference, judged in (
            (side, theirs, "", f"{times:.1f} (bar {BARS[side]:g}) {held}"),
            ("ours", ours, f"{less.mean():+.2f} [{low:+.2f}, {high:+.2f}]", "1"),
        ):
            numbers = f"{pick.share:.1%} | {prices[who]:.2f} | {pick.regret.mean():.2f}"
            lines.append(f"| {who} | {numbers} | {difference} | {pick.seconds:.0f} | {judged} |")
    return lines


def prepare(bench: Bench) -> None:
    """Does what only the first run of a machine pays for: the corpus in tokens, the kernels' calibration."""
    run = bench.resolved.cells()[0].run(0)
    short = dataclasses.replace(run.train, examples=run.train.batch_size, evaluations=1)
    with tempfile.TemporaryDirectory() as folder:
        sides.ours(dataclasses.replace(run, train=short), bench.paths, Path(folder), lambda number, best: False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=FILE)
    parser.add_argument("--minutes", type=float, default=60.0, help="no further run begins after this")
    parser.add_argument("--repetitions", type=int, default=800)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--report", action="store_true", help="what the file has, nothing trained")
    given = parser.parse_args()
    one_thread()
    keep_freed_memory()
    recorded = grid_of(read(CURVES / f"{GRID}.json.gz"))
    with tempfile.TemporaryDirectory() as cache:
        paths = DataPaths.from_folder(given.data, cache=Path(cache))
        pairs = [load_pairs("sts_dev", paths)]
        bench = Bench(space_of(recorded.resolved), Results(given.results), paths, [], pairs)
        bench.until = time.monotonic() + 60 * (0 if given.report else given.minutes)
        if not given.report:
            prepare(bench)
        with contextlib.suppress(OutOfTime):
            for row in itertools.chain(sides.search(bench), tune.search(bench)):
                print(f"{row.side} {dict(row.cell)}: {row.state} {row.best:.2f}, {row.seconds:.1f} CPU s", flush=True)
        print(f"\nload {os.getloadavg()[0]:.1f}\n")
        if len(bench.picks) < 2:
            print(f"PARTIAL: {len(bench.results.rows)} runs; run it again")
            return
        prices = {side: price(bench, side) for side in ("tune", "ours")}
        prices["released"] = prices["tune"]
        examples = len(recorded.cells) * recorded.examples[-1]
        print("\n".join(report(picks(replayed(recorded, given.repetitions), prices, examples), prices)))


if __name__ == "__main__":
    main()
