"""Tables that were made before, graded again by today's rule, without a run.

    python -m benchmarks.verdicts.regrade docs/results/reproduced/*.json

A page that holds every seed's value is graded as it is. One that holds means and deviations alone says how seeds lie in
each row only up to a turn, and how rows go together only through Kendall's W; then scores are drawn that agree with all
three, and each draw is graded: what is printed is the median over draws and their range. Such pages need three seeds.
"""

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from analysis.statistics.basics import mean_and_sd
from analysis.tables.aggregate import Entry, Row, Table
from analysis.tables.columns import Verdict
from analysis.tables.directions import Terms
from analysis.tables.spec import TableSpec
from analysis.tables.verdict import judge

DECIDED = ("same direction", "opposite direction", "tie")
COMPARED = (*DECIDED, "undecided")
DRAWS = 200
STEPS = 60
"""Turns of single rows between two draws, for every row."""
CLOSE = 1e-6


def drawn(means: np.ndarray, deviations: np.ndarray, w: float, generator: np.random.Generator) -> Iterator[np.ndarray]:
    """Scores [rows, 3 seeds] with these means, deviations and Kendall's W, one draw after the other.

    Three values of a given mean and deviation lie on a circle. Rows are turned one by one, and a turn that leads away
    from W is not made.
    """
    turns = generator.uniform(0, 2 * math.pi, len(means))
    apart = abs(concordance_of(_scores(means, deviations, turns)) - w)
    while True:
        for _ in range(STEPS * len(means)):
            tried = turns.copy()
            tried[generator.integers(len(means))] = generator.uniform(0, 2 * math.pi)
            away = abs(concordance_of(_scores(means, deviations, tried)) - w)
            if away <= max(apart, CLOSE):
                turns, apart = tried, away
        if apart <= CLOSE:
            yield _scores(means, deviations, turns)


def _scores(means: np.ndarray, deviations: np.ndarray, turns: np.ndarray) -> np.ndarray:
    angles = turns[:, None] + 2 * math.pi / 3 * np.arange(3)
    return np.asarray(means[:, None] + deviations[:, None] * math.sqrt(4 / 3) * np.cos(angles))


def concordance_of(scores_RS: np.ndarray) -> float:
    rows, seeds = scores_RS.shape
    sums = scipy.stats.rankdata(scores_RS, axis=0).sum(axis=1)
    return float(12 * np.square(sums - sums.mean()).sum() / (seeds**2 * (rows**3 - rows)))


def graded(
    page: Mapping[str, Any], terms: Terms, generator: np.random.Generator
) -> Iterator[dict[tuple[int, str], Verdict]]:
    """Verdicts of every column that the paper prints, for each draw; of a page with every value, once and for ever."""
    columns = list(dict.fromkeys(verdict["column"] for verdict in page["verdicts"]))
    sources = {column: _values(page, column, generator) for column in columns}
    default = next((verdict["key"] for verdict in page["verdicts"] if verdict["word"] == "reference"), None)
    spec = TableSpec(id=page["id"], axes=page["axes"], columns=columns, default=default)
    while True:
        values = {column: next(source) for column, source in sources.items()}
        rows = [
            Row(row["key"], {name: _entry(row["cells"][name], values[name].get(index, ())) for name in columns})
            for index, row in enumerate(page["rows"])
        ]
        table = Table(spec, rows, [], {}, [], no_signal=page.get("no_signal", ""))
        yield dict(judge(table, same_scale=False, terms=terms))


def _values(page: Mapping[str, Any], column: str, generator: np.random.Generator) -> Iterator[dict[int, Any]]:
    """Row index -> one value for each seed."""
    cells = {index: row["cells"][column] for index, row in enumerate(page["rows"]) if row["cells"][column]["n"]}
    if all("values" in cell for cell in cells.values()):
        while True:
            yield {index: cell["values"] for index, cell in cells.items()}
    (w,) = [order["agreement"]["w"] for order in page["ordering"] if order["column"] == column]
    means, deviations = (np.array([cell[name] for cell in cells.values()]) for name in ("mean", "sd"))
    for scores in drawn(means, deviations, w, generator):
        yield dict(zip(cells, scores, strict=True))


def _entry(cell: Mapping[str, Any], values: Any) -> Entry:
    mean, sd = mean_and_sd(list(values))
    seeds = cell.get("seeds", range(len(values)))
    idle = tuple(seed for seed in cell.get("idle", ()) if seed in seeds)
    return Entry(len(values), mean, sd, cell["published"], tuple(map(float, values)), tuple(seeds), idle)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", type=Path, nargs="+")
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--each", action="store_true", help="every contrast at 5%%, as the pages have it")
    given = parser.parse_args()
    totals = np.zeros(given.draws, int)
    print(
        "| table | compared | decided on the page | decided again: median (range) | reversed, largest share of draws |"
    )
    print("|---|--:|--:|--:|--:|")
    for path in given.pages:
        page = json.loads(path.read_text())
        before = {(v["column"], json.dumps(v["key"])): v["word"] for v in page["verdicts"] if v["word"] in COMPARED}
        counts, turned = [], Counter[Any]()
        for _, verdicts in zip(
            range(given.draws), graded(page, Terms(each=given.each), np.random.default_rng(0)), strict=False
        ):
            words = {(c, json.dumps(page["rows"][i]["key"])): v.word for (i, c), v in verdicts.items()}
            counts.append(sum(words[cell] in DECIDED for cell in before))
            turned.update(cell for cell, word in before.items() if {word, words[cell]} == set(DECIDED[:2]))
        totals += counts
        was = sum(word in DECIDED for word in before.values())
        share = max(turned.values(), default=0) / given.draws
        print(f"| {page['id']} | {len(before)} | {was} | {_range(np.array(counts))} | {share:.0%} |", flush=True)
    print(f"| all | | | {_range(totals)} | |")


def _range(counts: np.ndarray) -> str:
    return f"{np.median(counts):g} ({counts.min()} to {counts.max()})"


if __name__ == "__main__":
    main()
