"""The drivers of the benchmark end runs as a sweep's do, and share a list."""

import threading
from pathlib import Path

from analysis.ledger import Ledger
from benchmarks.growth import synthetic_ledger
from benchmarks.many_drivers.driver import Driver, Pace, Used, further_runs, told


def test_points_are_told_once_and_the_last_with_the_end() -> None:
    first, last = told(0, 2, 4, 400, False), told(2, 4, 4, 400, True)
    assert [point["examples"] for point in (*first["points"], *last["points"])] == [100, 200, 300, 400]
    assert (first["state"], last["state"], last["outcome"]["examples"]) == ("running", "done", 400)


def test_two_drivers_share_a_list_and_end_each_run_once(tmp_path: Path) -> None:
    path = synthetic_ledger.write(tmp_path, runs=10, points=2)
    planned = further_runs(tmp_path / "rows.yaml", 8)
    assert not {run.signature for run in planned} & {row.signature for row in Ledger.open(path).runs()}
    used: list[Used] = []

    def drive(name: str) -> None:
        driver = Driver(f"sqlite:///{path}", planned, tmp_path / "stored", name, Pace(slots=2, seconds=0.2, points=2))
        used.append(driver.go(60.0))

    threads = [threading.Thread(target=drive, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(driver.ended for driver in used) == 8
    rows = {row.signature: row for row in Ledger.open(path).runs()}
    assert {rows[run.signature].state for run in planned} == {"done"}
    assert all(driver.asked_ms and driver.cpu_s > 0 for driver in used)
