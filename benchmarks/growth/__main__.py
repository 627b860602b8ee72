"""What does not grow with the ledger: CPU time of what a sweep asks of it for each run, at 100 to 100,000 runs.

A run from claim to end (claim, start, two points, end), a signature's lookup and a heartbeat.

    python -m benchmarks.growth [--quick]
"""

import argparse
import os
import statistics
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from analysis.ledger import Ledger
from benchmarks.growth import synthetic_ledger
from benchmarks.paired import now
from cse_train.results import Point

RUNS, QUICK_RUNS = (100, 1_000, 10_000, 100_000), (100, 1_000)
POINTS = 2
BAR = 2.0
"""Most that a cost may grow from the smallest ledger to the largest, since indexes grow deeper."""
TRIES = 60
"""Of which the median is taken."""


def cpu_ms(work: Callable[[int], object]) -> float:
    """Median CPU milliseconds of this thread."""
    took = []
    for number in range(TRIES):
        begun = now().cpu
        work(number)
        took.append(now().cpu - begun)
    return 1000 * statistics.median(took)


def ledger(runs: int) -> dict[str, float]:
    """CPU milliseconds by what is asked of a ledger with so many runs."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        synthetic_ledger.write(folder, runs, POINTS)
        opened = Ledger.open(folder / "ledger.db")
        some = [run.signature for run in opened.runs()][:: max(1, runs // TRIES)]
        costs = {
            "a run claimed and booked": cpu_ms(lambda number: book(opened, f"new-{number}")),
            "a signature looked up": cpu_ms(lambda number: opened.run(some[number % len(some)])),
            "a heartbeat of who made all runs": cpu_ms(lambda number: opened.heartbeat("synthetic")),
        }
        opened.close()
    return costs


def book(opened: Any, signature: str) -> None:
    """The transactions of one run."""
    config = {"method": "simcse", "train.learning_rate": 1e-3}
    claim = opened.claim(
        signature, config, method="simcse", seed=0, owner="growth", identity={}, provenance={"commit": "0" * 40}
    )
    point: dict[str, Any] = {"step": 1, "seconds": 1.0, "best": 1.0, "best_examples": 1, "metrics": {"sts_dev": 1.0}}
    opened.running(claim, f"/growth/{signature}")
    for examples in range(1, POINTS + 1):
        opened.add_points(claim, [Point(examples, **point)])
    opened.finish(claim, "done", examples=2, best=1.0, best_examples=1, seconds=1.0, folder=f"/growth/{signature}")


def ledger_table(measured: Mapping[int, Mapping[str, float]]) -> list[str]:
    """Markdown; the growth of each row is judged."""
    sizes = sorted(measured)
    rows = [
        "| CPU ms | " + " | ".join(f"{n:,} runs" for n in sizes) + " | growth | bar | |",
        "|---" * (len(sizes) + 4) + "|",
    ]
    for name in measured[sizes[0]]:
        costs = [measured[n][name] for n in sizes]
        grown = costs[-1] / costs[0]
        shown = " | ".join(f"{cost:.2f}" for cost in costs)
        rows.append(f"| {name} | {shown} | {grown:.2f} | {BAR} | {'held' if grown <= BAR else 'MISSED'} |")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the smallest sizes")
    given = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}\n", flush=True)
    print("\n".join(ledger_table({runs: ledger(runs) for runs in (QUICK_RUNS if given.quick else RUNS)})))


if __name__ == "__main__":
    main()
