"""A slot's rest and a job's pace, by a clock that the test moves."""

import pytest

from cluster.slots.health import FIRST_QUARANTINE_SECONDS, LONGEST_QUARANTINE_SECONDS, STUCK_SECONDS, Pace, Quarantine


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_one_run_that_is_lost_again_and_again_is_no_reason_to_rest() -> None:
    quarantine = Quarantine(Clock())
    for _ in range(5):
        quarantine.lost("a")
    assert quarantine.left_s < 0


def test_each_rest_without_a_good_run_between_is_twice_as_long_up_to_a_limit() -> None:
    clock = Clock()
    quarantine, rests = Quarantine(clock), []
    quarantine.lost("a")
    for signature in "bcdefg":
        quarantine.lost(signature)
        rests.append(quarantine.left_s)
        clock.now += quarantine.left_s
        assert quarantine.left_s == 0
    assert rests == [
        FIRST_QUARANTINE_SECONDS,
        600.0,
        1200.0,
        2400.0,
        LONGEST_QUARANTINE_SECONDS,
        LONGEST_QUARANTINE_SECONDS,
    ]


def test_a_run_that_ends_in_order_makes_the_slot_healthy_again() -> None:
    quarantine = Quarantine(Clock())
    quarantine.lost("a")
    quarantine.went_well()
    quarantine.lost("b")
    assert quarantine.left_s < 0


def test_a_job_is_stuck_after_twenty_of_its_own_gaps_and_ten_minutes() -> None:
    clock = Clock()
    pace = Pace(clock)
    assert pace.stuck() == ""
    for _ in range(4):
        pace.point()
        clock.now += 60
    clock.now += 1140
    assert pace.stuck() == ""  # the last point is 1,200 s away, which is 20 gaps
    clock.now += 1
    assert pace.stuck() == "no dev point for 1201 s, where 60 s lay between two before"


def test_short_gaps_give_a_job_ten_minutes_and_a_retry_gives_it_any_time() -> None:
    clock = Clock()
    pace = Pace(clock)
    for _ in range(3):
        pace.point()
        clock.now += 1
    clock.now += STUCK_SECONDS - 1
    assert pace.stuck() == ""
    clock.now += 1
    assert pace.stuck()
    pace.pause()
    assert pace.stuck() == ""


@pytest.mark.parametrize("points", [0, 1])
def test_before_its_second_point_a_job_is_held_to_the_slowest_finished_run(points: int) -> None:
    clock = Clock()
    pace = Pace(clock, slowest_s=300.0)
    clock.now += 10_000  # its group waits for room
    assert not pace.is_begun and pace.stuck() == ""
    pace.begin()
    for _ in range(points):
        clock.now += 10
        pace.point()
    clock.now += 1500
    assert pace.stuck() == ""
    clock.now += 1
    assert pace.stuck() == "no dev point for 1501 s, where the slowest finished run took 300 s"


def test_where_nothing_has_finished_a_long_silence_is_said() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.begin()
    clock.now += STUCK_SECONDS
    assert pace.doubt() == ""
    clock.now += 1
    assert pace.doubt().startswith("no dev point for 10 min, and no finished run") and pace.stuck() == ""
    pace.point()
    assert pace.doubt() == ""
