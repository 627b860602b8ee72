"""What the growth benchmark measures and how it judges it."""

from pathlib import Path

from analysis.ledger import Ledger
from benchmarks.growth.__main__ import book, ledger_table


def test_what_is_asked_for_each_run_may_not_grow() -> None:
    costs = {"a lookup": (1.0, 1.4, 2.6), "a heartbeat": (1.0, 1.2, 1.9)}
    table = ledger_table({n: {k: v[i] for k, v in costs.items()} for i, n in enumerate((100, 1_000, 10_000))})
    assert table[-2].endswith("| 2.60 | 2.0 | MISSED |") and table[-1].endswith("| 1.90 | 2.0 | held |")


def test_a_booked_run_is_one_that_the_ledger_has(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db")
    book(ledger, "a" * 64)
    run = ledger.run("a" * 64)
    assert run is not None and run.state == "done" and len(ledger.curve("a" * 64)) == 2
    ledger.close()
