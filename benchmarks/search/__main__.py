"""Search strategies on the recorded grids: what each finds for a fifth of a grid's cost.

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

from benchmarks.search import seeds
from benchmarks.search.oracle import oracles
from benchmarks.search.record_grid import CURVES, Json, read
from benchmarks.search.replay import Array, Grid, Replay, grid_of, synthetic
from benchmarks.search.strategies import STRATEGIES, Strategy
from search_spaces.catalog import load_space

TOO_EASY = 0.6
"""Share of hits of random search above which a grid tells strategies apart no more."""
RESAMPLES = 4000
FIRST = 1000
"""Number of the first repetition: how our search picks was chosen on earlier ones."""


@dataclass(frozen=True)
class Outcome:
    """Results of one strategy over all repetitions."""

    regret: Array
    hit: Array
    """True where the pick's true score is within one standard error of the best cell's."""
    seconds: float


def interval(values: Array, statistic: Callable[[Array], Array] = lambda drawn: drawn.mean(axis=-1)) -> list[float]:
    """95% bootstrap interval over repetitions (the last axis of `values`), from a generator of its own."""
    rng = np.random.default_rng(0)
    chosen = rng.integers(values.shape[-1], size=(RESAMPLES, values.shape[-1]))
    return [float(end) for end in np.quantile(statistic(values[..., chosen]), [0.025, 0.975])]


def searched(
    grids: Callable[[int], Grid], share: float, repetitions: int, strategies: Mapping[str, Strategy] = STRATEGIES
) -> dict[str, Outcome]:
    """Replays every strategy on the same repetitions: the same grid, budget and order of seeds."""
    outcomes = {}
    for number, (name, strategy) in enumerate(strategies.items()):
        begun, judged = time.process_time(), []
        for repetition in range(FIRST, FIRST + repetitions):
            grid = grids(repetition)
            budget = share * len(grid.cells) * grid.examples[-1]
            replay = Replay(grid, budget, np.random.default_rng([repetition, 0]))
            judged.append(replay.regret(strategy(replay, np.random.default_rng([repetition, 1, number]))))
        regret, hit = (np.array(column, dtype=float) for column in zip(*judged, strict=True))
        outcomes[name] = Outcome(regret, hit, time.process_time() - begun)
    return outcomes


def summary(outcomes: Mapping[str, Outcome]) -> dict[str, dict[str, Any]]:
    """Mean regret, hits, and the ratio to random's mean regret, each with its interval."""
    random = outcomes["random"].regret

    def ratio(drawn: Array) -> Array:
        return drawn[0].mean(axis=-1) / drawn[1].mean(axis=-1)

    return {
        name: {
            "regret": float(outcome.regret.mean()),
            "regret_interval": interval(outcome.regret),
            "ratio_to_random": float(outcome.regret.mean() / random.mean()),
            "ratio_interval": interval(np.stack([outcome.regret, random]), ratio),
            "hits": float(outcome.hit.mean()),
            "hits_interval": interval(outcome.hit),
            "seconds": round(outcome.seconds, 1),
        }
        for name, outcome in outcomes.items()
    }


def replayed(grids: Callable[[int], Grid], share: float, repetitions: int, recording: Json | None = None) -> Json:
    """The strategies on one grid, or on a surface of each repetition's own; the oracles too where it was recorded."""
    grid = grids(0)
    wanted = STRATEGIES if recording is None else {**STRATEGIES, **oracles(grid)}
    strategies = summary(searched(grids, share, repetitions, wanted))
    welch, paired = seeds.decided(grid.finals, np.random.default_rng([0, 4]))
    return {
        "grid": f"{len(grid.cells)} cells x {grid.finals.shape[1]} seeds",
        "deviation": {"seeds": grid.deviation(), "cells": float(grid.finals.mean(axis=1).std(ddof=1))},
        "strategies": strategies,
        "pairs": {"seed_effect": seeds.seed_effect(grid.finals), "welch": welch, "paired": paired},
        "notes": notes(strategies, recording is None or recording["complete"]),
    }


def table(title: str, result: Json, share: float, repetitions: int) -> list[str]:
    """Markdown: what was replayed, the strategies, and what seeds tell apart."""
    pairs, deviation = result["pairs"], result["deviation"]
    return [
        f"{title}, {result['grid']}: seeds of a cell deviate by {deviation['seeds']:.2f} points, the cells' means by "
        f"{deviation['cells']:.2f}. {share:.0%} of a one-seed grid's cost, {repetitions} repetitions.",
        "",
        *rows(result["strategies"]),
        "",
        f"Of the seed variance {pairs['seed_effect']:.1%} is common to all cells.",
        "",
        f"Pairs of cells told apart by three common seeds: Welch's interval {pairs['welch']:.1%}, "
        f"paired {pairs['paired']:.1%}.",
        *([""] if result["notes"] else []),
        *result["notes"],
    ]


def rows(strategies: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Returns a table of strategies: regret, its ratio to random's, and hits."""
    lines = ["| strategy | mean regret | ratio to random | within 1 s.e. of the best |", "|---|---|---|---|"]
    for name, measured in strategies.items():
        regret = f"{measured['regret']:.2f} [{_ends(measured['regret_interval'], 2)}]"
        ratio = f"{measured['ratio_to_random']:.2f} [{_ends(measured['ratio_interval'], 2)}]"
        hits = f"{measured['hits']:.2f} [{_ends(measured['hits_interval'], 2)}]"
        lines.append(f"| {name} | {regret} | {ratio} | {hits} |")
    return lines


def removed(earlier: Mapping[str, Any]) -> list[str]:
    """Markdown: what was measured here before and is no longer part of the project, kept as a negative result."""
    if not earlier:
        return []
    race = earlier["race"]
    share = f"{race['race']:.4f} [{_ends(race['race_interval'], 4)}]"
    fixed = f"{race['fixed']:.4f} [{_ends(race['fixed_interval'], 4)}]"
    difference = f"{race['difference']:+.4f} [{_ends(race['difference_interval'], 4)}]"
    return [
        "",
        "## Measured and removed",
        "",
        "The sampler `posterior` and the seed race did no better than what is simpler, and are gone:",
        "",
        *rows(earlier["strategies"]),
        "",
        f"Pairs of cells in the right order after {race['runs_race']:.0f} runs: seeds raced {share}, "
        f"three each {fixed}; the difference is {difference}. A race that knows each cell's noise, less three each: "
        f"{race['informed']:+.4f} [{_ends(race['informed_interval'], 4)}].",
    ]


def _ends(ends: list[float], decimals: int) -> str:
    return ", ".join(f"{end:.{decimals}f}" for end in ends)


def notes(strategies: Mapping[str, Mapping[str, Any]], complete: bool) -> list[str]:
    """Returns the page's remarks on how far the numbers can be used."""
    lines = [] if complete else ["The recording is PARTIAL: only the values of the first axis that are complete count."]
    hits = strategies["random"]["hits"]
    if hits >= TOO_EASY:
        lines.append(f"Random search hits in {hits:.0%} of repetitions: this grid does not discriminate, widen it.")
    return lines


def page(results: Json) -> str:
    """Markdown of all grids, and of what was removed."""
    lines = ["# Search on the recorded grids", "", "    python -m benchmarks.search"]
    for space, result in results["grids"].items():
        title = load_space(space).title
        lines += ["", f"## {space}", "", *table(title, result, results["share"], results["repetitions"])]
    return "\n".join([*lines, *removed(results["removed"])]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", type=Path, help="this recording alone; writes nothing")
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--share", type=float, default=0.2)
    parser.add_argument("--synthetic", action="store_true", help="smooth surfaces with seed noise; writes nothing")
    parser.add_argument("--to", type=Path, default=Path("docs") / "results")
    given = parser.parse_args()
    amount = given.share, given.repetitions
    if given.synthetic:
        result = replayed(lambda repetition: synthetic(np.random.default_rng([repetition, 3])), *amount)
        print("\n".join(table("Synthetic surfaces", result, *amount)))
        return
    if given.grid and not given.grid.exists():
        raise SystemExit(f"no recorded grid: grid={given.grid}; python -m benchmarks.search.record_grid writes it")
    grids: dict[str, Json] = {}
    for file in [given.grid] if given.grid else sorted(CURVES.glob("*.json.gz")):
        recording = read(file)
        grid = grid_of(recording)
        grids[recording["space"]] = replayed(lambda repetition, grid=grid: grid, *amount, recording)
        title = load_space(recording["space"]).title
        print("\n".join(table(title, grids[recording["space"]], *amount)), flush=True)
    if given.grid:
        return
    given.to.mkdir(parents=True, exist_ok=True)
    file = given.to / "search.json"
    earlier = json.loads(file.read_text(encoding="utf-8")).get("removed", {}) if file.exists() else {}
    results = {"share": given.share, "repetitions": given.repetitions, "grids": grids, "removed": earlier}
    file.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    (given.to / "search.md").write_text(page(results), encoding="utf-8")


if __name__ == "__main__":
    main()
