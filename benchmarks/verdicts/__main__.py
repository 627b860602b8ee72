"""How often the verdicts' rule is wrong of a table, and how often it decides, beside Welch's intervals.

    nice python -m benchmarks.verdicts [--tables 10000] [--rows 4 8 16] [--to docs/results]

Writes verdict_error.json and verdict_error.md. Every setting has a generator of its own.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from analysis.statistics.looks import TIE_MARGIN
from benchmarks.verdicts.simulate import TOLD_AT, Setting, simulated

RHOS = (0.0, 0.5, 0.9)
RULES = ("ours", "Welch", "Welch, corrected")


def spreads(rows: int) -> Mapping[str, Sequence[float]]:
    """Kinds of table -> each row's deviation, the reference first."""
    others = rows - 1
    return {
        "equal spreads": [1.0] * rows,
        "deviations 0.5 to 2": [1.0, *np.geomspace(0.5, 2, others)],
        "every other row 3": [1.0] + [3.0 if i % 2 else 1.0 for i in range(others)],
        "every other row 20": [1.0] + [20.0 if i % 2 else 1.0 for i in range(others)],
        "one row 3": [1.0, 3.0] + [1.0] * (rows - 2),
        "reference row 3": [3.0] + [1.0] * others,
        "reference row 0.1": [0.1] + [1.0] * others,
    }


def errors(rows: int) -> Iterator[tuple[str, Setting]]:
    """Tables in which every word but `undecided` is wrong, or half of the words."""
    for rho in RHOS:
        yield from ((f"{name}, rho {rho:g}", Setting(s, rho)) for name, s in spreads(rows).items())
        yield f"a collapsed seed, rho {rho:g}", Setting([1.0] * rows, rho, fall=25)
        yield f"a seed 8 points low, rho {rho:g}", Setting([1.0] * rows, rho, fall=8)
        edges = [0.0, *np.resize([TIE_MARGIN, -TIE_MARGIN, 0.0], rows - 1)]
        yield f"differences of 0 and of the margin, sd 0.2, rho {rho:g}", Setting([0.2] * rows, rho, edges)


def measured(rows: int, tables: int) -> dict[str, Any]:
    """Family errors, and shares of decided contrasts where one row differs by 1 and one by 2 deviations."""
    wrong: dict[str, Any] = {}
    for number, (name, setting) in enumerate(errors(rows)):
        words = simulated(setting, tables, np.random.default_rng([rows, number]), TIE_MARGIN)
        truth = np.broadcast_to(setting.means, rows)[1:] - setting.means[0]
        wrong[name] = {rule: [words[rule, when].wrong(truth, TIE_MARGIN) for when in TOLD_AT] for rule in RULES}
        print(rows, name, *(f"{share:.3f}" for share in wrong[name]["ours"]), flush=True)
    power: dict[str, Any] = {}
    for number, rho in enumerate(RHOS):
        apart = Setting([1.0] * rows, rho, [0.0, 1.0, 2.0] + [0.0] * (rows - 3))
        words = simulated(apart, tables, np.random.default_rng([rows, 100 + number]), TIE_MARGIN)
        for place, size in enumerate((1, 2)):
            power[f"rho {rho:g}, a difference of {size} sd"] = {
                rule: [float((words[rule, when].direction[:, place] > 0).mean()) for when in TOLD_AT] for rule in RULES
            }
        equal = simulated(Setting([0.3] * rows, rho), tables, np.random.default_rng([rows, 200 + number]), TIE_MARGIN)
        power[f"rho {rho:g}, equal rows of sd 0.3, tie"] = {
            "ours": [float(equal["ours", w].tie.mean()) for w in TOLD_AT]
        }
    return {"rows": rows, "tables": tables, "family error": wrong, "decided": power}


def markdown(results: Sequence[Mapping[str, Any]]) -> str:
    """Returns the page: a table of errors and one of power for every number of rows."""
    lines = ["# How often verdicts are wrong, and how often they decide", "", "    python -m benchmarks.verdicts", ""]
    head = ["setting", "rule", *TOLD_AT]
    for result in results:
        lines += [f"## {result['rows']} rows, {result['tables']:,} tables a setting", ""]
        for what, mark in (("family error", "wrong, % of tables"), ("decided", "decided, % of the contrasts")):
            lines += [f"{mark}:", "", f"| {' | '.join(head)} |", f"|---|---|{'--:|' * len(TOLD_AT)}"]
            lines += [
                f"| {name} | {rule} | {' | '.join(f'{100 * share:.1f}' for share in shares)} |"
                for name, rules in result[what].items()
                for rule, shares in rules.items()
                if what == "decided" or rule != "Welch"
            ]
            lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=10_000)
    parser.add_argument("--rows", type=int, nargs="+", default=[4, 8, 16])
    parser.add_argument("--to", type=Path, default=Path("docs/results"))
    given = parser.parse_args()
    given.to.mkdir(parents=True, exist_ok=True)
    results = []
    for rows in given.rows:
        results.append(measured(rows, given.tables))
        plain = {"when": list(TOLD_AT), "tables": results}
        (given.to / "verdict_error.json").write_text(json.dumps(plain, indent=1) + "\n")
        (given.to / "verdict_error.md").write_text(markdown(results))


if __name__ == "__main__":
    main()
