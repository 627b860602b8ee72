"""Stub slots: a process each, no torch in any, as many as fit; with 64 of them no slot waits long for the driver."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.driver.orchestration import Measured, sweep
from benchmarks.driver.sleeping import SETTLE_S, Load, Nap

STUB = {"group": "benchmarks.driver.sleeping:SleepingGroup"}


def load(folder: Path, slots: int, seconds: float, rounds: int) -> Load:
    return Load(str(folder), slots, seconds, rounds)


def test_first_trials_wait_for_every_slot_and_others_sleep(tmp_path: Path) -> None:
    given = load(tmp_path, slots=2, seconds=0.05, rounds=1)
    first = Nap(given, 0)
    given.started(2)
    assert not first.over(0.1) and Nap(given, 2).over()
    second = Nap(given, 1)
    assert first.over(5) and second.over(5)


def test_the_share_is_of_the_time_without_any_wait(tmp_path: Path) -> None:
    given = load(tmp_path, slots=1, seconds=1.5, rounds=2)
    for name, moment in (("all-up", 1000.0 - SETTLE_S), ("end-0", 1000.0), ("end-1", 1002.0), ("end-2", 1004.0)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (moment, moment))
    assert given.share() == pytest.approx(0.75)


def test_drivers_share_the_trials_and_the_first_of_their_slots_come_first(tmp_path: Path) -> None:
    given = Load(str(tmp_path), slots=6, seconds=0.0, rounds=2, drivers=3)
    shares = [given.numbers(driver) for driver in range(3)]
    assert shares == [[0, 1, 6, 9, 12, 15], [2, 3, 7, 10, 13, 16], [4, 5, 8, 11, 14, 17]]
    for number in range(6):
        Nap(given, number)
    given.started(2, driver=0)
    given.started(2, driver=1)
    assert not given.is_begun(watch=True)
    given.started(2, driver=2)
    assert given.is_begun(watch=True)


@pytest.mark.slow
def test_stub_slots_share_a_sweep_and_import_no_torch(ray_cluster: None, tmp_path: Path) -> None:
    """`sweep` itself looks for torch in each trial's process, and for as many processes as runs fit at once."""
    found = sweep("stub", load(tmp_path, slots=2, seconds=0.5, rounds=2), **STUB)
    assert isinstance(found, Measured) and 0.2 < found.share <= 1.0


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_64_stub_slots_wait_for_the_driver_less_than_a_tenth_of_20_s() -> None:
    """In a process of its own: the cluster of a test session, where there is one, has two CPUs."""
    code = "from benchmarks.driver.orchestration import measure; print(measure('stub', 64, 20.0, 2).share)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(ran.stdout.split()[-1]) > 0.9, ran.stdout
