"""Do two repetition rates go together over seeds more closely when they share random numbers?

    nice python -m benchmarks.common_numbers --data DIR [--seeds 8] [--rates 0.08 0.32] [--to docs/results]

ESimCSE at profile tiny: each seed at each rate under today's sequential streams, with dropout
masks by counter, with nested repetition, and with both. Small-scale. Writes common_numbers.json and .md.
"""

import argparse
import json
import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from benchmarks.common_numbers.runs import PROFILE, WAYS, score

ENOUGH = 0.2
"""By which the correlation must rise to be built."""
RESAMPLES = 10_000


def correlations(scores_RS: np.ndarray, generator: np.random.Generator) -> dict[str, Any]:
    """Of every pair of rows over seeds, and their mean with 95% over resampled seeds (BCa); the mean residual."""
    pairs = list(combinations(range(len(scores_RS)), 2))

    def mean_of(*rows: np.ndarray, axis: int = -1) -> np.ndarray:
        return np.mean([_pearson(rows[a], rows[b], axis) for a, b in pairs], axis=0)

    drawn = scipy.stats.bootstrap(
        tuple(scores_RS), mean_of, paired=True, n_resamples=RESAMPLES, rng=generator, vectorized=True
    )
    interval = drawn.confidence_interval
    apart = [float((scores_RS[a] - scores_RS[b]).std(ddof=1)) for a, b in pairs]
    return {
        "mean": float(mean_of(*scores_RS)),
        "interval": [float(interval.low), float(interval.high)],
        "deviation of differences": math.sqrt(float(np.mean(np.square(apart)))),
    }


def _pearson(a: np.ndarray, b: np.ndarray, axis: int) -> np.ndarray:
    a, b = a - a.mean(axis=axis, keepdims=True), b - b.mean(axis=axis, keepdims=True)
    scale = np.sqrt(np.square(a).sum(axis=axis) * np.square(b).sum(axis=axis))
    return np.asarray((a * b).sum(axis=axis) / np.where(scale > 0, scale, 1.0))


def rise(ours_RS: np.ndarray, today_RS: np.ndarray, generator: np.random.Generator) -> list[float]:
    """95% of the correlation's rise, over seeds drawn for both at once."""
    chosen = generator.integers(ours_RS.shape[1], size=(RESAMPLES, ours_RS.shape[1]))
    parts = []
    for scores_RS in (ours_RS, today_RS):
        drawn_RDS = scores_RS[:, chosen]
        pairs = combinations(range(len(scores_RS)), 2)
        parts.append(np.mean([_pearson(drawn_RDS[a], drawn_RDS[b], -1) for a, b in pairs], axis=0))
    return [float(end) for end in np.quantile(parts[0] - parts[1], [0.025, 0.975])]


def summary(scores: Mapping[str, Sequence[Sequence[float]]], rates: Sequence[float]) -> dict[str, Any]:
    """Of every way: scores [rates, seeds], correlations, and the rise over today's."""
    ways = {}
    for number, (way, rows) in enumerate(scores.items()):
        values = np.array(rows)
        ways[way] = {"scores": values.tolist(), **correlations(values, np.random.default_rng([number, 0]))}
        ways[way]["rise"] = ways[way]["mean"] - ways[WAYS[0]]["mean"]
        ways[way]["rise interval"] = rise(values, np.array(scores[WAYS[0]]), np.random.default_rng([number, 1]))
    return {"rates": list(rates), "profile": PROFILE, "ways": ways}


def markdown(result: Mapping[str, Any]) -> str:
    """A line a way."""
    seeds = len(result["ways"][WAYS[0]]["scores"][0])
    rates = ", ".join(f"{rate:g}" for rate in result["rates"])
    lines = [
        "# Common random numbers for two repetition rates",
        "",
        "    python -m benchmarks.common_numbers",
        "",
        f"ESimCSE, repetition rates {rates}, {seeds} seeds, profile {result['profile']}: small-scale.",
        "",
        "| way | correlation over seeds | rise | sd of differences within a seed |",
        "|---|---|---|--:|",
    ]
    for way, got in result["ways"].items():
        ends = ", ".join(f"{end:.2f}" for end in got["interval"])
        change = ", ".join(f"{end:+.2f}" for end in got["rise interval"])
        shown = "" if way == WAYS[0] else f"{got['rise']:+.2f} [{change}]"
        lines.append(f"| {way} | {got['mean']:.2f} [{ends}] | {shown} | {got['deviation of differences']:.2f} |")
    best = max(got["rise"] for got in result["ways"].values())
    said = "enough to be built" if best >= ENOUGH else f"below the {ENOUGH:g} from which it would be built"
    return "\n".join([*lines, "", f"The largest rise is {best:+.2f}: {said}.", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--rates", type=float, nargs="+", default=[0.08, 0.32])
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--to", type=Path, default=Path("docs/results"))
    given = parser.parse_args()
    asked = [(way, rate, seed) for seed in range(given.seeds) for way in WAYS for rate in given.rates]
    with ProcessPoolExecutor(given.processes, mp_context=get_context("spawn")) as pool:
        waiting = {run: pool.submit(score, *run, given.data) for run in asked}
        results = {run: future.result() for run, future in waiting.items()}
    scores = {way: [[results[way, rate, seed] for seed in range(given.seeds)] for rate in given.rates] for way in WAYS}
    result = summary(scores, given.rates)
    given.to.mkdir(parents=True, exist_ok=True)
    (given.to / "common_numbers.json").write_text(json.dumps(result, indent=1) + "\n")
    (given.to / "common_numbers.md").write_text(markdown(result))
    print(markdown(result))


if __name__ == "__main__":
    main()
