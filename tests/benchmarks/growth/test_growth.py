"""What the growth benchmark measures and how it judges it."""

import subprocess
import sys
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from benchmarks.growth.__main__ import book, corpus_rows, ledger_table, shares_growth
from benchmarks.growth.corpus import Memory

TAKING = """
from benchmarks.growth.corpus import memory
before = memory()
taken = bytearray(32 << 20)
taken[::4096] = b"x" * (len(taken) // 4096)  # a page is taken when it is written
print(memory().beyond(before).private)
"""


def test_memory_that_is_taken_is_seen() -> None:
    """In a process of its own: another test's memory, given back meanwhile, would count against it."""
    taken = subprocess.run([sys.executable, "-c", TAKING], capture_output=True, text=True, check=True)
    assert 30 < float(taken.stdout) < 40


def test_a_corpus_is_judged_by_the_bytes_of_each_further_line() -> None:
    found = {10_000: 3.0, 373_416: 9.0}
    lines = corpus_rows({n: (Memory(0, 0, 50), Memory(own, 1, 0)) for n, own in found.items()})
    assert lines[-1].endswith("each further line: 17 bytes (bar 32): held")
    heavy = corpus_rows({n: (Memory(0, 0, 50), Memory(10 * own, 1, 0)) for n, own in found.items()})
    assert heavy[-1].endswith("173 bytes (bar 32): MISSED")


def test_what_reads_all_runs_may_grow_with_them_and_nothing_else_may() -> None:
    assert shares_growth([100, 1_000, 10_000], [10.0, 19.0, 109.0]) == pytest.approx(1.0)
    assert shares_growth([100, 1_000, 10_000], [10.0, 19.0, 1009.0]) > 10
    costs = {"a lookup": (1.0, 1.4, 2.6), "cse table": (10.0, 19.0, 109.0)}
    table = ledger_table({n: {k: v[i] for k, v in costs.items()} for i, n in enumerate((100, 1_000, 10_000))})
    assert table[-2].endswith("| 2.60 | 2.0 | MISSED |") and table[-1].endswith("| 1.00 a run | 1.5 | held |")


def test_a_booked_run_is_one_that_the_ledger_has(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db")
    book(ledger, "a" * 64)
    run = ledger.run("a" * 64)
    assert run is not None and run.state == "done" and len(ledger.curve("a" * 64)) == 2
    ledger.close()


@pytest.mark.slow
def test_the_command_measures_a_corpus(data_dir: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.growth", "--quick", "--only", "corpus", "--data", str(data_dir)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "own memory for each further line: " in done.stdout and done.stdout.count("| 10,000 |") == 1
