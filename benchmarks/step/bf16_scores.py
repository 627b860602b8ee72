"""Whether `train.precision: bf16` moves dev scores by more than seeds do: five seeds of three methods, both ways.

The first rows of E8 (ESimCSE), S3 (SimCSE) and D7 (DiffCSE) at profile `tiny`, by our own loop. Of each seed's
difference between bf16 and fp32 two one-sided t tests ask whether its mean lies within a deviation of the fp32 seeds;
a method whose interval at 90 % does is inside the noise of seeds.

    python -m benchmarks.step.bf16_scores [--quick] [--data DIR]
"""

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy import stats

from benchmarks.step.setting import DATA, one_thread
from benchmarks.sweep.sides import ours
from cse_train.config import RunConfig
from cse_train.data_paths import DataPaths
from cse_train.numerics import keep_freed_memory
from search_spaces.catalog import load_space
from search_spaces.cells import resolve

TABLES = ("E8", "S3", "D7")
SEEDS = range(5)
LEVEL = 0.05
"""Of each of the two tests."""


@dataclass(frozen=True)
class Compared:
    """One method's best dev scores by seed."""

    fp32: Sequence[float]
    bf16: Sequence[float]

    @property
    def deviation(self) -> float:
        """Of the fp32 seeds: what the mean difference must lie within."""
        return float(np.std(self.fp32, ddof=1))

    @property
    def interval(self) -> tuple[float, float]:
        """Of the mean difference; inside the margin exactly where both one-sided tests reject."""
        differences = np.subtract(self.bf16, self.fp32)
        error = differences.std(ddof=1) / len(differences) ** 0.5
        reach = float(stats.t.ppf(1 - LEVEL, len(differences) - 1) * error)
        return float(differences.mean()) - reach, float(differences.mean()) + reach

    @property
    def inside(self) -> bool:
        """Whether bf16 is inside the noise of seeds."""
        return max(map(abs, self.interval)) < self.deviation


def best(run: RunConfig, precision: str, paths: DataPaths) -> float:
    """The best dev score of one run."""
    run = replace(run, train=replace(run.train, precision=precision))
    with tempfile.TemporaryDirectory() as folder:
        return max(ours(run, paths, Path(folder), lambda number, score: False).scores)


def row(method: str, compared: Compared) -> str:
    """A line of Markdown."""
    low, high = compared.interval
    means = (f"{np.mean(scores):.2f} ± {np.std(scores, ddof=1):.2f}" for scores in (compared.fp32, compared.bf16))
    said = "inside" if compared.inside else "NOT SHOWN"
    return f"| {method} | {' | '.join(means)} | {(low + high) / 2:+.2f} [{low:+.2f}, {high:+.2f}] | {said} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--quick", action="store_true", help="two seeds of two steps: whether all parts work")
    given = parser.parse_args()
    one_thread()
    keep_freed_memory()
    print("| method | fp32 | bf16 | bf16 less fp32 [90 %] | within a deviation of seeds |\n" + "|---" * 5 + "|")
    with tempfile.TemporaryDirectory() as cache:
        paths = DataPaths.from_folder(given.data, cache=Path(cache))
        for table in TABLES:
            cell = resolve(load_space(table), "tiny").cells()[0]
            runs = [cell.run(seed) for seed in (SEEDS[:2] if given.quick else SEEDS)]
            if given.quick:
                short = {"examples": 2 * runs[0].train.batch_size, "evaluations": 1}
                runs = [replace(run, train=replace(run.train, **short)) for run in runs]
            fp32, bf16 = ([best(run, precision, paths) for run in runs] for precision in ("fp32", "bf16"))
            print(row(runs[0].method, Compared(fp32, bf16)), flush=True)


if __name__ == "__main__":
    main()
