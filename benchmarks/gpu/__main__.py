"""Everything that is to be shown on a card, part by part, each in a process of its own with a time limit.

`gpu.json`, `gpu.md` and a log of each part lie in one folder and are written while it runs. A call goes on where the
one before ended: parts that are done are not run again, and a part that was cut goes on with its next item. A part that
failed says why and the next one runs; `--again PART` runs what failed in it again. Text is generated, no network used.

    python -m benchmarks.gpu [--minutes 25] [--to results/gpu] [--quick] [--only PARTS] [--again PARTS]
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.gpu import parts
from benchmarks.gpu.parts import REPO, Call, Part, made
from benchmarks.gpu.record import CUT, DONE, SKIPPED, PartRecord, Record, named

PARTS = (
    made("step", "The step against the libraries' trainers", 5),
    made("packing", "Runs side by side on one card", 4),
    made("tests", "Tests of cse_train", 9, "benchmarks.gpu.checks", "tests/cse_train", needs=("pytest",)),
    made("tables", "E7, E8 and S3 with twelve seeds", 6),
    made("compile", "The step under torch.compile", 5, "benchmarks.gpu.step", "--compiled"),
    made("tests_cluster", "Tests of cluster", 5, "benchmarks.gpu.checks", "tests/cluster", needs=("pytest", "ray")),
)
"""Parts in the order of their worth: a machine is lent for minutes, and the last parts may not be reached."""
TITLES = {part.name: part.title for part in PARTS}
LEAST = 20.0
"""Seconds without which no further part is begun."""


def wanted(record: Record, only: Sequence[str]) -> list[Part]:
    """The parts to run: those that were not begun, then those that were cut."""
    fresh = [part for part in PARTS if part.name not in record.parts]
    cut = [part for part in PARTS if part.name in record.parts and record.parts[part.name].state == CUT]
    return [part for part in (*fresh, *cut) if not only or part.name in only]


def go(record: Record, only: Sequence[str], until: float) -> None:
    """Run the wanted parts until the clock says so."""
    call = Call(record.folder, record.file, record.quick, named(record.machine))
    for part in wanted(record, only):
        left = until - time.perf_counter()
        if left < LEAST:
            print(f"the time is over; the same command goes on, on another machine too once {record.file} is there")
            return
        before = record.parts.get(part.name)

        def saw(now: PartRecord, name: str = part.name) -> None:
            if record.parts.get(name) != now:
                record.parts[name] = now
                record.save(TITLES)

        print(f"{part.title} ...", end=" ", flush=True)
        parts.run(part, before, call, min(60 * part.minutes, left), saw)
        now = record.parts[part.name]
        print(f"{now.state}{f': {now.why}' if now.why else ''} ({now.seconds:.0f} s)", flush=True)


def names(text: str) -> list[str]:
    """Parts by name; argparse says which there are."""
    given = [name for name in text.split(",") if name]
    if unknown := [name for name in given if name not in TITLES]:
        raise argparse.ArgumentTypeError(f"no part {', '.join(unknown)}; choose from {', '.join(TITLES)}")
    return given


def main() -> int:
    begun = time.perf_counter()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=25, help="of this call")
    parser.add_argument("--to", type=Path, default=REPO / "results" / "gpu", help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="all of it at tiny sizes, on a CPU where there is no card")
    parser.add_argument("--only", type=names, default=[], help=f"some of {','.join(TITLES)}")
    parser.add_argument("--again", type=names, default=[], help="parts of which to run again what failed")
    given = parser.parse_args()
    record = Record.open(given.to, given.quick)
    facts = parts.machine_facts()
    if facts["card"] is None and not given.quick:
        reason = "torch is not installed" if facts["torch"] is None else "torch sees no CUDA device"
        print(f"no card: {reason}; nothing was run; --quick runs all of it on a CPU")
        return 1
    record.machine = facts
    for name in given.again:
        if name in record.parts:
            record.parts[name] = record.parts[name].without_errors()
    record.save(TITLES)
    print(named(facts), flush=True)
    go(record, given.only, begun + 60 * given.minutes)
    record.save(TITLES)
    print(f"{record.file} and gpu.md, with a log of each part beside them")
    states = [record.parts[name].state for name in TITLES if name in record.parts]
    return 0 if len(states) == len(TITLES) and set(states) <= {DONE, SKIPPED} else 1


if __name__ == "__main__":
    raise SystemExit(main())
