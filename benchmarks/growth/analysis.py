"""What tables, listings and reports cost at 10,000 runs of 20 curve points: seconds of the clock and of the CPU.

    python -m benchmarks.growth.analysis [--runs 10000 [100 100000 ...]] [--points 20]

Each command is a process of its own, start and imports included. The bars are of the CPU: the clock depends on what
else the machine does, and hold at BAR_AT runs.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.growth import synthetic_ledger

BARS = {"ls": 0.5, "table": 0.5, "trials": 2.0, "report": 20.0}
"""Seconds of CPU."""
BAR_AT = 10_000


@dataclass(frozen=True)
class Cost:
    """What one command took."""

    command: str
    wall: float
    cpu: float
    """User and system time of the process."""


def measure(folder: Path) -> list[Cost]:
    """The costs of the commands on the ledger that `ledger_rows.write` put into `folder`."""
    space, ledger = str(folder / "rows.yaml"), ("--ledger", str(folder / "ledger.db"))
    timed("table", space, *ledger)  # compiles our modules, as an installation does
    return [
        timed("ls", *ledger),
        timed("table", space, *ledger),
        timed("trials", synthetic_ledger.SWEEP, *ledger),
        timed("report", synthetic_ledger.SWEEP, *ledger, "--out", str(folder / "page")),
    ]


def timed(*argv: str) -> Cost:
    """One `cse` command in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-m", "cse", *argv]
    began, before = time.monotonic(), os.times()
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    after = os.times()
    cpu = after.children_user - before.children_user + after.children_system - before.children_system
    return Cost(argv[0], time.monotonic() - began, cpu)


def rows(costs: list[Cost], runs: int) -> list[str]:
    """Lines of Markdown."""
    bars = [f"{BARS[cost.command]:g}" if runs == BAR_AT else "" for cost in costs]
    return [
        f"| {runs:,} | cse {cost.command} | {cost.wall:.2f} | {cost.cpu:.2f} | {bar} |"
        for cost, bar in zip(costs, bars, strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, nargs="+", default=[BAR_AT])
    parser.add_argument("--points", type=int, default=20)
    given = parser.parse_args()
    print("| runs | command | wall s | CPU s | bar |\n|--:|---|--:|--:|--:|")
    for runs in given.runs:
        with tempfile.TemporaryDirectory() as folder:
            synthetic_ledger.write(Path(folder), runs, given.points)
            print("\n".join(rows(measure(Path(folder)), runs)), flush=True)


if __name__ == "__main__":
    main()
