"""A loop of candidates against one reference: how often it names one that is not better, and what a real gain costs.

    nice python -m benchmarks.loop FOLDER [--loops 4000] [--to docs/results]

FOLDER holds csv files of public seeds, one for each encoder. A run's score is its encoder's mean and a deviation drawn
from its file's, for reference and candidates alike; in half of the loops one candidate, at a random place, gains a
point. A loop ends with the first candidate that is called better. Writes loop.json and loop.md.
"""

import argparse
import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from analysis.statistics.collapse import comparable
from analysis.statistics.contrasts import Array, Mask, contrasts, student
from analysis.statistics.looks import NOMINAL, TIE_MARGIN, spend
from analysis.statistics.spearman_bootstrap import resample_pairs

LOOP_CANDIDATES = 40
GAIN = 1.0
LOOP_COLUMN = "avg"
ALIKE = 0.95
"""Correlation of the errors of two seeds' cosines on one set, taken for the bootstrap."""
TEST_PAIRS = {"sts12": 3108, "sts13": 1500, "sts14": 3750, "sts15": 3000, "sts16": 1186, "stsb": 1379, "sick": 4927}
"""Sentence pairs of the seven sets behind the average."""


@dataclass(frozen=True)
class Found:
    """Ends of T loops: the place that was called better, -1 for none, and the runs taken, the reference's included."""

    place_T: np.ndarray
    runs_T: np.ndarray


@dataclass(frozen=True)
class GateRule:
    """`cse gate` with these looks; before a look at more seeds a candidate is dropped at or below `least` points."""

    looks: tuple[int, ...]
    drops: tuple[int, ...] = ()
    least: float = 0.0
    announced: bool = True

    @property
    def name(self) -> str:
        """Name of the rule in the tables."""
        of = f"--candidates {LOOP_CANDIDATES}" if self.announced else "nothing announced"
        dropped = f"; dropped after {' and '.join(map(str, self.drops))} seeds at or below {self.least:+g}"
        looks = f" --looks {','.join(map(str, self.looks))}" if self.drops or len(self.looks) > 1 else ""
        return f"gate, {self.looks[-1]} seeds: {of}{looks}" + (dropped if self.drops else "")

    def run(self, scores_TRS: Array) -> Found:
        """Scores [T loops, 1 + candidates, S seeds], the reference first."""
        loops, rows, _ = scores_TRS.shape
        count = rows - 1
        levels_C = [spend(1, count) if self.announced else spend(k) for k in range(1, rows)]
        shares_C = np.array(levels_C) * (NOMINAL[len(self.looks)] / NOMINAL[1])
        is_open_TC, better_TC = np.ones((loops, count), bool), np.zeros((loops, count), bool)
        runs_TC = np.zeros((loops, count))
        for seeds in sorted({*self.looks, *self.drops}):
            runs_TC[is_open_TC] = seeds
            difference_TC, higher_TC, ended_TC = words(scores_TRS[:, :, :seeds], shares_C)
            if seeds in self.looks:
                better_TC |= is_open_TC & higher_TC
                is_open_TC &= ~ended_TC
            if seeds in self.drops:
                is_open_TC &= difference_TC > self.least
        return first_of(better_TC, runs_TC, self.looks[-1])


def words(scores_TRS: Array, shares_C: Array) -> tuple[Array, Mask, Mask]:
    """Compares each candidate by itself with the reference [T, C]: difference, `better` or not, decided or not."""
    loops, rows, seeds = scores_TRS.shape
    reference_TCS = np.broadcast_to(scores_TRS[:, :1], (loops, rows - 1, seeds))
    pairs_N2S = np.stack([reference_TCS, scores_TRS[:, 1:]], axis=2).reshape(-1, 2, seeds)
    made = contrasts(comparable(pairs_N2S, 0), 0)
    shape = (loops, rows - 1)
    difference_TC, error_TC, freedom_TC = (
        np.reshape(part, shape) for part in (made.difference, np.sqrt(made.variance / made.seeds), made.freedom)
    )
    tie_TC = np.abs(difference_TC) + student_of(2 * shares_C, freedom_TC) * error_TC < TIE_MARGIN
    apart_TC = np.abs(difference_TC) > student_of(shares_C, freedom_TC) * error_TC
    return difference_TC, apart_TC & ~tie_TC & (difference_TC > 0), apart_TC | tie_TC


def student_of(levels_C: Array, freedom_TC: Array) -> Array:
    """Student's two-sided quantile, NaN without degrees of freedom."""
    with np.errstate(invalid="ignore"):
        return np.stack([student(level, freedom_TC[:, c]) for c, level in enumerate(levels_C)], axis=1)


def first_of(better_TC: Mask, runs_TC: Array, reference_runs: int) -> Found:
    """The loop ends with the first candidate that is called better."""
    place_T = np.where(better_TC.any(axis=1), better_TC.argmax(axis=1), -1)
    last_T = np.where(place_T < 0, better_TC.shape[1] - 1, place_T)
    return Found(place_T, np.take_along_axis(runs_TC.cumsum(axis=1), last_T[:, None], 1)[:, 0] + reference_runs)


def one_run(scores_TRS: Array, least: float) -> Found:
    """Better is what one run has more than `least` points above one run of the reference."""
    better_TC = scores_TRS[:, 1:, 0] - scores_TRS[:, :1, 0] > least
    return first_of(better_TC, np.ones(better_TC.shape), 1)


def bootstrap_error(generator: np.random.Generator) -> float:
    """Standard error over sentence pairs of a difference of two runs' average, in points.

    By the paired bootstrap on 1,379 pairs whose cosines have Spearman's correlation 75 with the grades, and whose
    errors correlate by ALIKE; a set of n pairs has it times sqrt(1379 / n).
    """
    pairs = TEST_PAIRS["stsb"]
    grade, shared, apart = (
        generator.normal(size=pairs),
        generator.normal(size=pairs),
        generator.normal(size=(2, pairs)),
    )
    both = [0.76 * grade + 0.65 * (np.sqrt(ALIKE) * shared + np.sqrt(1 - ALIKE) * each) for each in apart]
    left_D, right_D = resample_pairs([[both[0]], [both[1]]], grade, 1000, generator)
    error = float(np.std(left_D - right_D))
    return error * float(np.sqrt(sum(pairs / n for n in TEST_PAIRS.values()))) / len(TEST_PAIRS)


RULES = (
    GateRule((5,)),
    GateRule((24,), (3, 8)),
    GateRule((24,), (3, 8), TIE_MARGIN),
    GateRule((3, 5, 8, 12)),
    GateRule((5,), announced=False),
    GateRule((24,), (3, 8), TIE_MARGIN, announced=False),
)


def measure(deviations: Array, loops: int, generator: np.random.Generator, error: float) -> dict[str, list[float]]:
    """Rule -> share of loops without a better candidate that name one, share of the others that name the better one,
    and the runs of both, the reference's included."""
    seeds = max(rule.looks[-1] for rule in RULES)
    made: dict[str, list[float]] = {}
    null_TRS = generator.choice(deviations, size=(loops, 1 + LOOP_CANDIDATES, seeds))
    gained_TRS, place_T = (
        generator.choice(deviations, size=null_TRS.shape),
        generator.integers(LOOP_CANDIDATES, size=loops),
    )
    gained_TRS[np.arange(loops), 1 + place_T] += GAIN
    rules = {
        "+0.005 after one run": lambda scores: one_run(scores, 0.5),
        "paired bootstrap over sentences, one seed each": lambda scores: one_run(scores, 1.959964 * error),
        **{rule.name: rule.run for rule in RULES},
    }
    for name, run in rules.items():
        null, gained = run(null_TRS), run(gained_TRS)
        shares = float((null.place_T >= 0).mean()), float((gained.place_T == place_T).mean())
        made[name] = [*shares, float(null.runs_T.mean()), float(gained.runs_T.mean())]
    return made


def read_deviations(file: Path) -> Array:
    """Reads the deviation of each seed's score from the mean, in points."""
    with file.open(encoding="utf8", newline="") as lines:
        values = np.array([float(row[LOOP_COLUMN]) for row in csv.DictReader(lines)])
    return np.asarray(values - values.mean())


def markdown(results: Mapping[str, Mapping[str, Sequence[float]]], loops: int) -> str:
    """Returns the page: a table for each encoder."""
    lines = [
        f"# A loop of {LOOP_CANDIDATES} candidates", "", "    python -m benchmarks.loop FOLDER", "",
        f"{loops:,} loops of each kind an encoder, with the noise of its public seeds (average of seven STS sets).",
        "False wins: of loops without a better candidate, those that name one. Found: of loops in which one candidate "
        f"gains {GAIN:g} point, those that name it. Runs: a loop's, the reference's included, of both kinds.", "",
    ]  # fmt: skip
    for encoder, rules in results.items():
        lines += [f"## {encoder}", "", "| rule | false wins, % | found, % | runs, none better | runs, one better |"]
        lines += ["|---|--:|--:|--:|--:|"]
        lines += [
            f"| {name} | {100 * f:.1f} | {100 * p:.1f} | {n:.0f} | {g:.0f} |" for name, (f, p, n, g) in rules.items()
        ]
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--loops", type=int, default=4000)
    parser.add_argument("--to", type=Path, default=Path("docs/results"))
    given = parser.parse_args()
    error = bootstrap_error(np.random.default_rng(0))
    results = {}
    for number, file in enumerate(sorted(given.folder.glob("*.csv"))):
        results[file.stem] = measure(read_deviations(file), given.loops, np.random.default_rng([51, number]), error)
        print(file.stem, json.dumps(results[file.stem], indent=1), flush=True)
    given.to.mkdir(parents=True, exist_ok=True)
    plain = {"loops": given.loops, "bootstrap_error": error, "encoders": results}
    (given.to / "loop.json").write_text(json.dumps(plain, indent=1) + "\n", encoding="utf8")
    (given.to / "loop.md").write_text(markdown(results, given.loops), encoding="utf8")


if __name__ == "__main__":
    main()
