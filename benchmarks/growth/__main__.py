"""What grows with the corpus and with the ledger, and what does not.

Corpus: memory of a process that opens a corpus of so many Wikipedia lines and draws an epoch's batches, beyond the same
with 640 lines: its own (anonymous) pages, and pages of the memory-mapped files, which all runs of a node share. The
first run of a corpus tokenises it: the highest memory of that process stands apart. Each is a process of its own.

Ledger: CPU time of what a sweep asks of it for each run (claim, start, two points, end), of a signature's lookup and of
a heartbeat, and of `cse table` and `cse trials`, which read every run, at 100 to 100,000 runs.

    python -m benchmarks.growth [--quick] [--only corpus|ledger] [--data DIR]
"""

import argparse
import os
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from analysis.ledger import Ledger
from benchmarks.growth import analysis, synthetic_ledger
from benchmarks.growth.corpus import Memory, corpus
from benchmarks.paired import now
from benchmarks.step.setting import DATA

LINES, QUICK_LINES = (10_000, 40_000, 160_000, 373_416), (10_000, 40_000)
RUNS, QUICK_RUNS = (100, 1_000, 10_000, 100_000), (100, 1_000)
POINTS = 2
BAR_BYTES = 32.0
"""Own memory for each line of the corpus: two lists of row numbers, and room."""
BAR_FLAT, BAR_LINEAR = 2.0, 1.5
"""Most that a cost may grow from the smallest ledger to the largest, since indexes grow deeper; and, for what reads all
runs, a run's share of it from the second largest to the largest."""
TRIES, REPEATS = 60, 3
"""Of what takes milliseconds, of which the median is taken, and of commands, of which the best is."""


def cpu_ms(work: Callable[[int], object], tries: int = TRIES) -> float:
    """Median CPU milliseconds of this thread."""
    took = []
    for number in range(tries):
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
        space, where = str(folder / "rows.yaml"), ("--ledger", str(folder / "ledger.db"))
        for command in (("table", space), ("trials", synthetic_ledger.SWEEP)):
            costs[f"cse {command[0]}"] = 1000 * min(analysis.timed(*command, *where).cpu for _ in range(REPEATS))
    return costs


def book(opened: Any, signature: str) -> None:
    """The transactions of one run."""
    config = {"method": "simcse", "train.learning_rate": 1e-3}
    claim = opened.claim(
        signature, config, method="simcse", seed=0, owner="growth", identity={}, provenance={"commit": "0" * 40}
    )
    point = {"step": 1, "seconds": 1.0, "best": 1.0, "best_examples": 1, "metrics": {"sts_dev": 1.0}}
    opened.running(claim, f"/growth/{signature}")
    for examples in range(1, POINTS + 1):
        opened.add_points(claim, [{"examples": examples, **point}])
    opened.finish(claim, "done", examples=2, best=1.0, best_examples=1, seconds=1.0, folder=f"/growth/{signature}")


def corpus_rows(memories: Mapping[int, tuple[Memory, Memory]]) -> list[str]:
    """Markdown, the bytes of a line last."""
    rows = ["| lines | own MB | mapped MB | first run's peak MB |", "|--:|--:|--:|--:|"]
    rows += [
        f"| {n:,} | {later.private:.1f} | {later.mapped:.1f} | {first.peak:.1f} |"
        for n, (first, later) in memories.items()
    ]
    low, high = min(memories), max(memories)
    each = 2**20 * (memories[high][1].private - memories[low][1].private) / (high - low)
    held = "held" if each <= BAR_BYTES else "MISSED"
    return [*rows, f"\nown memory for each further line: {each:.0f} bytes (bar {BAR_BYTES:g}): {held}"]


def ledger_table(measured: Mapping[int, Mapping[str, float]]) -> list[str]:
    """Markdown; the growth of each row is judged."""
    sizes = sorted(measured)
    rows = [
        "| CPU ms | " + " | ".join(f"{n:,} runs" for n in sizes) + " | growth | bar | |",
        "|---" * (len(sizes) + 4) + "|",
    ]
    for name in measured[sizes[0]]:
        costs = [measured[n][name] for n in sizes]
        linear = name.startswith("cse ")
        grown = shares_growth(sizes, costs) if linear else costs[-1] / costs[0]
        bar = BAR_LINEAR if linear else BAR_FLAT
        shown = " | ".join(f"{cost:.2f}" for cost in costs)
        unit = " a run" if linear else ""
        rows.append(f"| {name} | {shown} | {grown:.2f}{unit} | {bar} | {'held' if grown <= bar else 'MISSED'} |")
    return rows


def shares_growth(sizes: Sequence[int], costs: Sequence[float]) -> float:
    """How much more each run costs at the largest size than at the one before, beyond what the smallest costs."""
    each = [(cost - costs[0]) / (size - sizes[0]) for size, cost in zip(sizes[1:], costs[1:], strict=True)]
    return each[-1] / each[-2] if len(each) > 1 else 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--only", choices=("corpus", "ledger"), help="one of the two tables")
    parser.add_argument("--quick", action="store_true", help="the smallest sizes")
    given = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}\n", flush=True)
    if given.only != "ledger":
        memories = {lines: corpus(lines, given.data) for lines in (QUICK_LINES if given.quick else LINES)}
        print("\n".join(corpus_rows(memories)) + "\n", flush=True)
    if given.only != "corpus":
        print("\n".join(ledger_table({runs: ledger(runs) for runs in (QUICK_RUNS if given.quick else RUNS)})))


if __name__ == "__main__":
    main()
