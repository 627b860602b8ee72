"""The row of mutated spaces: nothing is hurt but the files that a person writes."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.faults.chain import Fault
from benchmarks.faults.fuzz_spaces import fuzz

SPACES = 2000


def carry(faults: Sequence[Fault], work: Path) -> list[tuple[Fault, list[str]]]:
    """Mutate and plan them once for each; the spaces that ended in neither lines nor a plan."""
    return [(fault, once(fault.seed)) for fault in faults]


def once(seed: int, count: int = SPACES) -> list[str]:
    ends, broken = fuzz(count, seed)
    print("fuzz", dict(ends), flush=True)
    return [f"{case.why}: {case.text[:200]!r}" for case in broken]
