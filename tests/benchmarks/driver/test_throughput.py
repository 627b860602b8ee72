"""The arithmetic of two runs side by side."""

import pytest

from benchmarks.driver.throughput import Round, row
from benchmarks.paired import Seconds


def test_two_undisturbed_runs_make_twice_the_steps() -> None:
    free = Round(alone=Seconds(cpu=4.0, wall=4.0), both=Seconds(cpu=8.0, wall=4.0))
    assert (free.by_wall, free.by_cpu, free.received) == (2.0, 2.0, 1.0)


def test_a_taken_core_shows_in_the_wall_clock_and_in_what_was_granted_alone() -> None:
    starved = Round(alone=Seconds(cpu=4.0, wall=4.0), both=Seconds(cpu=8.0, wall=8.0))
    assert (starved.by_wall, starved.by_cpu, starved.received) == (1.0, 2.0, 0.5)


def test_sharing_caches_shows_in_both_ratios() -> None:
    slower = Round(alone=Seconds(cpu=4.0, wall=4.0), both=Seconds(cpu=10.0, wall=5.0))
    assert slower.by_wall == slower.by_cpu == pytest.approx(1.6)
    assert "| 1.60 [1.60, 1.60] | 1.7 | MISSED | 1.60 [1.60, 1.60] | 100% |" in row("tiny", [slower])
