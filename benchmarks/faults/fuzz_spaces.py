"""Mutated spaces: each ends in lines for a person or in a valid plan, never in a traceback, never in minutes.

`python -m benchmarks.faults.fuzz_spaces [--count 2000] [--seed 0]` prints the ends; exit code 1 when one broke.
"""

import argparse
import copy
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from cluster.plan.planner import plan
from cse_train.data_paths import DataPaths
from cse_train.fields import ConfigError
from search_spaces.catalog import find_folder
from search_spaces.parse import parse_file

Rng = np.random.Generator
SLOW_S = 30.0
"""Seconds of one space that count as hanging, on a machine that others use too."""
WORDS = ("method", "space", "when", "grid", "choice", "randint", "uniform", "set", "cells", "label", "search", "seeds")
MARKS = "[]{}:,-&*!|>'\"%@`#?\n\t \x00é0"
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1.5, 10**17, 10**400, 1e308, float("inf"), float("nan")),
    *("", "x", "\0", "é", "1e-5", "nan", "method", "../../etc/passwd"),
    *([], {}, [1], [[1]], [{}], [None], {"a": 1}, {"grid": [1]}, {"grid": [{}]}, {"label": "a", "set": {}}),
    {"randint": [0, 10**15]},
)


@dataclass(frozen=True)
class Broken:
    """Mutated space that ended in neither one-line messages nor a plan."""

    why: str
    text: str


def mutated(rng: Rng) -> str:
    """Returns the text of a shipped space, changed in its structure or in its text."""
    files = sorted([*find_folder().glob("*.yaml"), *(find_folder() / "papers").glob("*.yaml")])
    text = files[rng.integers(len(files))].read_text(encoding="utf8")
    return _by_structure(text, rng) if rng.random() < 0.6 else _by_text(text, rng)


def fuzz(count: int, seed: int) -> tuple[Counter[str], list[Broken]]:
    """(how many were refused and how many planned, what broke) of `count` mutated spaces."""
    rng = np.random.default_rng(seed)
    ends: Counter[str] = Counter()
    broken: list[Broken] = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(count):
            text = mutated(rng)
            begun = time.perf_counter()
            end = outcome(text, Path(folder, "space.yaml"))
            if time.perf_counter() - begun > SLOW_S:
                end = f"took {time.perf_counter() - begun:.0f} s"
            ends[end if end in ("refused", "planned") else "broken"] += 1
            if end not in ("refused", "planned"):
                broken.append(Broken(end, text))
    return ends, broken


def outcome(text: str, file: Path) -> str:
    """`refused` with one line per problem, `planned`, or what went wrong."""
    file.write_text(text, encoding="utf8", errors="replace")
    try:
        plan([parse_file(file)], None, None, None, DataPaths())
    except ConfigError as error:
        clean = error.problems and not any("\n" in line for line in error.problems)
        return "refused" if clean else f"no clean lines: {error.problems!r}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "planned"


def _by_structure(text: str, rng: Rng) -> str:
    tree = yaml.safe_load(text)
    for _ in range(rng.integers(1, 4)):
        places = list(_places(tree))
        if places:
            _change(*places[rng.integers(len(places))], rng)
    return yaml.safe_dump(tree, allow_unicode=True, sort_keys=False)


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key) of every value in a tree."""
    for key, value in list(tree.items()) if isinstance(tree, dict) else list(enumerate(tree)):
        yield tree, key
        if isinstance(value, dict | list):
            yield from _places(value)


def _change(container: Any, key: Any, rng: Rng) -> None:
    what = rng.random()
    if what < 0.6:
        container[key] = copy.deepcopy(VALUES[rng.integers(len(VALUES))])
    elif what < 0.75:
        del container[key]
    elif isinstance(container, dict):
        container[WORDS[rng.integers(len(WORDS))]] = container.pop(key)
    else:
        container.append(copy.deepcopy(container[key]))


def _by_text(text: str, rng: Rng) -> str:
    changes: tuple[Callable[[str, int, int], str], ...] = (
        lambda t, at, n: t[:at] + MARKS[n % len(MARKS)] + t[at + 1 :],
        lambda t, at, n: t[:at] + t[at + n :],
        lambda t, at, n: t[:at] + t[at : at + n] + t[at:],
    )
    for _ in range(rng.integers(1, 5)):
        at, length = int(rng.integers(len(text))), int(rng.integers(1, 40))
        text = changes[rng.integers(len(changes))](text, at, length) or "\n"
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    begun = time.perf_counter()
    ends, broken = fuzz(given.count, given.seed)
    print(f"{given.count} mutated spaces, seed {given.seed}, {time.perf_counter() - begun:.0f} s: {dict(ends)}")
    for case in broken:
        print(f"broken: {case.why}\n{case.text}\n")
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
