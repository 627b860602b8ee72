"""What a sweep asks of the ledger for each run costs as much beside 2,000 runs as beside 50, in steps of SQLite."""

from typing import Any

import pytest

from analysis.ledger import Ledger
from cse_train.results import Point
from tests.synthetic_ledger import write

SIZES = (50, 2_000)


def book(ledger: Ledger, signature: str) -> None:
    """The transactions of one run: claim, start, two points, end."""
    config = {"method": "simcse", "train.learning_rate": 1e-3}
    claim = ledger.claim(
        signature, config, method="simcse", seed=0, owner="growth", identity={}, provenance={"commit": "0" * 40}
    )
    point: dict[str, Any] = {"step": 1, "seconds": 1.0, "best": 1.0, "best_examples": 1, "metrics": {"sts_dev": 1.0}}
    ledger.running(claim, f"/growth/{signature}")
    for examples in (1, 2):
        ledger.add_points(claim, [Point(examples, **point)])
    ledger.finish(claim, "done", examples=2, best=1.0, best_examples=1, seconds=1.0, folder=f"/growth/{signature}")


def steps_of(ledger: Ledger, work) -> int:
    """Instructions of SQLite's machine; the pool gives the one connection that is asked to count."""
    seen = []
    raw = ledger._engine.raw_connection()
    raw.driver_connection.set_progress_handler(lambda: seen.append(1) and None, 1)
    raw.close()
    work(ledger)
    return len(seen)


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory: pytest.TempPathFactory) -> list[Ledger]:
    opened = [Ledger.open(write(tmp_path_factory.mktemp("rows") / str(size), size, 1)) for size in SIZES]
    yield opened
    for ledger in opened:
        ledger.close()


@pytest.mark.parametrize(
    ("what", "work"),
    [
        ("heartbeat of the owner of all runs", lambda ledger: ledger.heartbeat("synthetic")),
        ("nothing to release", lambda ledger: ledger.release("synthetic")),
        ("one run from claim to end", lambda ledger: book(ledger, "f" * 64)),
        ("a signature looked up", lambda ledger: ledger.run("0" * 64)),
    ],
)
def test_the_cost_of_a_run_does_not_grow_with_the_ledger(ledgers: list[Ledger], what: str, work) -> None:
    few, many = (steps_of(ledger, work) for ledger in ledgers)
    assert few > 10, "the counter counts"
    assert many < 1.5 * few, what


def test_a_booked_run_is_one_that_the_ledger_has(ledgers: list[Ledger]) -> None:
    book(ledgers[0], "a" * 64)
    run = ledgers[0].run("a" * 64)
    assert run is not None and run.state == "done" and len(ledgers[0].curve("a" * 64)) == 2
