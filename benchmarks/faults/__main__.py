"""Hurt real sweeps at random moments and check what is left.

    python -m benchmarks.faults worker|driver|interrupt|drivers|all [--count N] [--seed S] [--again]

Each trial is appended to docs/results/faults.jsonl at once: a campaign that was killed goes on where it was.
"""

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.faults import kills, results
from benchmarks.faults.moment import Moment, drawn
from benchmarks.faults.sweep import END_S, EVALUATIONS, REPO, RUNS, Sweep
from cluster.packages import code_digest, provenance

Row = Callable[[Sweep, Sweep, Moment, int], list[str]]
ROWS: dict[str, tuple[Row, str, int]] = {
    "worker": (kills.worker, "kill -9 of one Train worker", 10),
    "driver": (kills.driver, "kill -9 of the driver, then the same command", 10),
    "interrupt": (kills.interrupt, "Ctrl-C or SIGTERM, then the same command", 10),
    "drivers": (kills.two_drivers, "two drivers on one study", 3),
}
FILE, PAGE = REPO / "docs" / "results" / "faults.jsonl", REPO / "docs" / "reliability.md"


def undisturbed(work: Path) -> Sweep:
    """The sweep that nobody hurt; made once for a version of the code."""
    sweep = Sweep(work / "undisturbed")
    if not (sweep.folder / "whole").exists():
        shutil.rmtree(sweep.folder, ignore_errors=True)
        try:
            code = sweep.start().wait(END_S)
            assert code == 0, sweep.said()
            (sweep.folder / "whole").touch()
        finally:
            sweep.end()
    return sweep


def trial(row: str, number: int, seed: int, work: Path) -> results.Trial:
    """One fault; a trial that could not be carried through is a problem too."""
    reference, begun = undisturbed(work), time.monotonic()
    moment = drawn(seed, RUNS * EVALUATIONS)
    sweep = Sweep(work / f"{row}-{number}")
    shutil.rmtree(sweep.folder, ignore_errors=True)
    try:
        found = ROWS[row][0](sweep, reference, moment, seed)
    except Exception as error:
        found = [f"{type(error).__name__}: {str(error)[:300]}"]
    finally:
        sweep.end()
    if not found:
        shutil.rmtree(sweep.folder, ignore_errors=True)
    return results.Trial(
        row=row,
        number=number,
        seed=seed,
        points=moment.points,
        delay_s=moment.delay_s,
        problems=found,
        seconds=round(time.monotonic() - begun, 1),
        commit=provenance()["commit"],
        at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def campaign(row: str, count: int, seed: int, work: Path) -> None:
    """The trials of a row that the results file lacks."""
    done = {one.number for one in results.read(FILE) if one.row == row}
    for number in range(count):
        if number not in done:
            found = trial(row, number, seed + 1000 * list(ROWS).index(row) + number, work)
            results.append(FILE, found)
            print(row, number, f"{found.seconds:.0f} s", "; ".join(found.problems) or "as it should be", flush=True)


def forget(row: str) -> None:
    """Leave a row's trials out of the results file."""
    kept = [one for one in results.read(FILE) if one.row != row]
    FILE.unlink(missing_ok=True)
    for one in kept:
        results.append(FILE, one)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row", choices=[*ROWS, "all"])
    parser.add_argument("--count", type=int, help="trials in all (the row's own number)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--again", action="store_true", help="forget the row's trials first")
    given = parser.parse_args()
    work = Path(tempfile.gettempdir(), f"cse-faults-{code_digest()}")
    for row in ROWS if given.row == "all" else (given.row,):
        if given.again:
            forget(row)
        campaign(row, given.count or ROWS[row][2], given.seed, work)
    PAGE.write_text(results.page(results.read(FILE), {k: (words, n) for k, (_, words, n) in ROWS.items()}))


if __name__ == "__main__":
    main()
