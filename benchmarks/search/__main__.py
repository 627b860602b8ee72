"""Search strategies and seed racing on the recorded grid: what each finds for a fifth of the grid's cost.

The grid's cost is one full run of every cell, as a grid of one seed has it. Each repetition draws the order of seeds
anew; a strategy gets SHARE of the cost in training examples, and the cell that it names is judged by the seeds that it
did not draw, against the cell with the highest mean over all seeds. No training: the runs are replayed.

    python -m benchmarks.search [--repetitions 200] [--share 0.2] [--synthetic] [--to docs/results]
"""

import argparse
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.search import seed_race
from benchmarks.search.oracle import oracles
from benchmarks.search.record_grid import FILE, read
from benchmarks.search.replay import Array, Grid, Replay, grid_of, synthetic
from benchmarks.search.strategies import STRATEGIES, Strategy

TOO_EASY = 0.6
"""Share of hits of random search above which a grid tells strategies apart no more."""
RESAMPLES = 4000


@dataclass(frozen=True)
class Found:
    """One strategy over all repetitions."""

    regret: Array
    hit: Array
    """Whether the pick's truth is within one standard error of the best cell's."""
    seconds: float


def interval(values: Array, statistic: Callable[[Array], Array] = lambda drawn: drawn.mean(axis=-1)) -> list[float]:
    """95% bootstrap interval over repetitions (the last axis of `values`), from a generator of its own."""
    rng = np.random.default_rng(0)
    chosen = rng.integers(values.shape[-1], size=(RESAMPLES, values.shape[-1]))
    return [float(end) for end in np.quantile(statistic(values[..., chosen]), [0.025, 0.975])]


def _ratio(drawn: Array) -> Array:
    """Mean of the first row over mean of the second."""
    return drawn[0].mean(axis=-1) / drawn[1].mean(axis=-1)


def searched(
    grids: Callable[[int], Grid], share: float, repetitions: int, strategies: Mapping[str, Strategy] = STRATEGIES
) -> dict[str, Found]:
    """Every strategy on the same repetitions: the same grid, budget and order of seeds."""
    found = {}
    for number, (name, strategy) in enumerate(strategies.items()):
        begun, judged = time.process_time(), []
        for repetition in range(repetitions):
            grid = grids(repetition)
            budget = share * len(grid.cells) * grid.examples[-1]
            replay = Replay(grid, budget, np.random.default_rng([repetition, 0]))
            judged.append(replay.regret(strategy(replay, np.random.default_rng([repetition, 1, number]))))
        regret, hit = (np.array(column, dtype=float) for column in zip(*judged, strict=True))
        found[name] = Found(regret, hit, time.process_time() - begun)
    return found


def raced(grids: Callable[[int], Grid], repetitions: int) -> dict[str, Any]:
    """Shares of correct pairwise orders at equal total runs, with intervals."""
    shares = [seed_race.correct_orders(grids(i).finals, np.random.default_rng([i, 2])) for i in range(repetitions)]
    draws = (np.random.default_rng([i, 2]) for i in range(repetitions))
    informed = np.array([seed_race.informed_orders(grids(i).finals, rng) for i, rng in enumerate(draws)])
    race, fixed, runs = (np.array(column, dtype=float) for column in zip(*shares, strict=True))
    return {
        "race": float(race.mean()),
        "race_interval": interval(race),
        "fixed": float(fixed.mean()),
        "fixed_interval": interval(fixed),
        "informed": float((informed - fixed).mean()),
        "informed_interval": interval(informed - fixed),
        "difference": float((race - fixed).mean()),
        "difference_interval": interval(race - fixed),
        "runs_race": float(runs.mean()),
        "runs_fixed": seed_race.FIXED * len(grids(0).cells),
        "seed_effect": seed_race.seed_effect(grids(0).finals),
        "decided": seed_race.decided(grids(0).finals, np.random.default_rng([0, 4])),
    }


def summary(found: Mapping[str, Found]) -> dict[str, dict[str, Any]]:
    """Mean regret, hits, and the ratio to random's mean regret, each with its interval."""
    random = found["random"].regret
    return {
        name: {
            "regret": float(one.regret.mean()),
            "regret_interval": interval(one.regret),
            "ratio_to_random": float(one.regret.mean() / random.mean()),
            "ratio_interval": interval(np.stack([one.regret, random]), _ratio),
            "hits": float(one.hit.mean()),
            "hits_interval": interval(one.hit),
            "seconds": round(one.seconds, 1),
        }
        for name, one in found.items()
    }


def table(result: Mapping[str, Any]) -> str:
    """Markdown: what was replayed, the strategies, the race, and what follows."""
    lines = [
        f"{result['grid']}. {result['share']:.0%} of a one-seed grid's cost, {result['repetitions']} repetitions.\n"
    ]
    lines += ["| strategy | mean regret | ratio to random | within 1 s.e. of the best |", "|---|---|---|---|"]
    for name, one in result["strategies"].items():
        regret = f"{one['regret']:.2f} [{_ends(one['regret_interval'], 2)}]"
        ratio = f"{one['ratio_to_random']:.2f} [{_ends(one['ratio_interval'], 2)}]"
        lines.append(f"| {name} | {regret} | {ratio} | {one['hits']:.2f} [{_ends(one['hits_interval'], 2)}] |")
    race = result["race"]
    lines += ["", "| seeds | runs | pairs in the right order |", "|---|---|---|"]
    for name, words in (("race", "raced: 2 each, then where undecided"), ("fixed", "3 each")):
        ends = _ends(race[f"{name}_interval"], 4)
        lines.append(f"| {words} | {race[f'runs_{name}']:.0f} | {race[name]:.4f} [{ends}] |")
    ends = _ends(race["difference_interval"], 4)
    lines += [
        "",
        f"Raced less fixed: {race['difference']:+.4f} [{ends}]. A race that knows each cell's noise, less fixed: "
        f"{race['informed']:+.4f} [{_ends(race['informed_interval'], 4)}]. "
        f"Of the seed variance {race['seed_effect']:.1%} is common to all cells.",
    ]
    welch, paired = race["decided"]
    lines += [
        "",
        f"Pairs of cells told apart by three common seeds: Welch's interval {welch:.1%}, paired {paired:.1%}.",
    ]
    return "\n".join([*lines, *(["", *result["notes"]] if result["notes"] else [])])


def _ends(ends: list[float], decimals: int) -> str:
    return ", ".join(f"{end:.{decimals}f}" for end in ends)


def notes(strategies: Mapping[str, Mapping[str, Any]], complete: bool) -> list[str]:
    """What a reader must know before the numbers are used."""
    found = [] if complete else ["The recording is PARTIAL: only the values of the first axis that are complete count."]
    hits = strategies["random"]["hits"]
    if hits >= TOO_EASY:
        found.append(f"Random search hits in {hits:.0%} of repetitions: this grid does not discriminate, widen it.")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", type=Path, default=FILE)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--share", type=float, default=0.2)
    parser.add_argument("--synthetic", action="store_true", help="smooth surfaces with seed noise; writes nothing")
    parser.add_argument("--to", type=Path, default=Path("docs") / "results")
    given = parser.parse_args()
    if not given.synthetic and not given.grid.exists():
        raise SystemExit(f"no recorded grid: grid={given.grid}; python -m benchmarks.search.record_grid writes it")
    recorded = None if given.synthetic else read(given.grid)
    fixed = None if recorded is None else grid_of(recorded)

    def grids(repetition: int) -> Grid:
        return fixed or synthetic(np.random.default_rng([repetition, 3]))

    wanted = STRATEGIES if fixed is None else {**STRATEGIES, **oracles(fixed)}
    strategies = summary(searched(grids, given.share, given.repetitions, wanted))
    shown = (
        "Synthetic surfaces"
        if fixed is None
        else f"Recorded grid, {len(fixed.cells)} cells x {fixed.finals.shape[1]} seeds"
    )
    result = {
        "grid": shown,
        "share": given.share,
        "repetitions": given.repetitions,
        "strategies": strategies,
        "race": raced(grids, given.repetitions),
        "notes": notes(strategies, recorded is None or recorded["complete"]),
    }
    print(table(result))
    if recorded is not None:
        given.to.mkdir(parents=True, exist_ok=True)
        (given.to / "search.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        head = "# Search and seed racing on the recorded grid\n\n    python -m benchmarks.search\n\n"
        (given.to / "search.md").write_text(head + table(result) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
