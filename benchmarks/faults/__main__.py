"""Inject faults into real sweeps at random moments and check what is left.

    python -m benchmarks.faults ROW|all [--count N] [--seed S] [--again]

Faults of a row share sweeps. Each is appended to docs/results/faults.jsonl as its sweep ends: a campaign that was
killed goes on where it was. Needs Linux; some rows need root, and PostgreSQL's server, on this machine.
"""

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.faults import chain, fuzz, kills, many, nodes, results, storages
from benchmarks.faults.chain import Fault
from cluster.runtime.code_version import code_digest, provenance
from tests.cluster_real.processes import REPO


class Row(NamedTuple):
    """Row of the reliability table."""

    words: str
    wanted: int
    together: int
    """Faults that one sweep takes at most."""
    carry: Callable[[Sequence[Fault], Path], list[tuple[Fault, list[str]]]]


ROWS = {
    "worker": Row("kill -9 of one Train worker", 10, 2, partial(chain.carry, kills.WorkerKilled)),
    "driver": Row("kill -9 of the driver, then the same command", 10, 5, partial(chain.carry, kills.DriverKilled)),
    "node": Row("kill -9 of a node (raylet and its workers)", 10, 2, partial(chain.carry, nodes.NodeKilled)),
    "interrupt": Row("Ctrl-C or SIGTERM, then the same command", 10, 5, partial(chain.carry, kills.Interrupted)),
    "link": Row("link between two hosts cut for 60 s", 3, 1, partial(chain.carry, nodes.LinkCut)),
    "server": Row("PostgreSQL restarted mid-sweep", 3, 3, partial(chain.carry, storages.ServerRestarted)),
    "space": Row("disk full (checkpoints, ledger), storage read-only", 3, 3, partial(chain.carry, storages.NoSpace)),
    "drivers": Row("two drivers on one study", 3, 1, partial(chain.carry, kills.TwoDrivers)),
    "many": Row("1,000 near-empty runs on 2 slots", 1, 1, many.carry),
    "fuzz": Row("2,000 mutated spaces", 1, 1, fuzz.carry),
}
BARS = {name: (row.words, row.wanted) for name, row in ROWS.items()}
FILE, PAGE = REPO / "docs" / "results" / "faults.jsonl", REPO / "docs" / "reliability.md"


def campaign(name: str, count: int, seed: int, work: Path) -> None:
    """The faults of a row that the results file lacks, some to a sweep."""
    row, done = ROWS[name], {trial.number for trial in results.read(FILE) if trial.row == name}
    first = seed + 1000 * list(ROWS).index(name)
    left = [Fault(number, first + number) for number in range(count) if number not in done]
    for start in range(0, len(left), row.together):
        begun, group = time.monotonic(), left[start : start + row.together]
        for fault, problems in row.carry(group, work):
            seconds = (time.monotonic() - begun) / len(group)
            results.append(FILE, trial(name, fault, problems, seconds))
            print(name, fault.number, f"{seconds:.0f} s", "; ".join(problems) or "passed", flush=True)


def trial(row: str, fault: Fault, problems: list[str], seconds: float) -> results.Trial:
    return results.Trial(
        row=row,
        number=fault.number,
        seed=fault.seed,
        points=fault.moment.points,
        delay_s=fault.moment.delay_s,
        problems=problems,
        seconds=round(seconds, 1),
        commit=provenance()["commit"],
        at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def forget(row: str) -> None:
    """Leave a row's trials out of the results file."""
    kept = [trial for trial in results.read(FILE) if trial.row != row]
    FILE.unlink(missing_ok=True)
    for other in kept:
        results.append(FILE, other)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row", choices=[*ROWS, "all"])
    parser.add_argument("--count", type=int, help="faults in all (the row's own number)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--again", action="store_true", help="forget the row's faults first")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # sweeps are ended on the way out
    work = Path(tempfile.gettempdir(), f"cse-faults-{code_digest()}")
    for name in ROWS if given.row == "all" else (given.row,):
        if given.again:
            forget(name)
        campaign(name, given.count or ROWS[name].wanted, given.seed, work)
        PAGE.write_text(results.page(PAGE.read_text(encoding="utf8"), results.read(FILE), BARS), encoding="utf8")


if __name__ == "__main__":
    main()
