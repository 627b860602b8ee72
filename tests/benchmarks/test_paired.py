"""Paired timing: the order of rounds, ratios inside a round, and another library's loop stepped from outside."""

import pytest

from benchmarks.paired import Seconds, SteppedLoop, interleaved, median_ms, ratio


def test_rounds_reverse_their_order_and_warm_steps_do_not_count():
    seen = []
    steps = {name: lambda name=name: seen.append(name) or Seconds(1.0, 2.0) for name in "ab"}
    times = interleaved(steps, rounds=3, warm=1)
    assert "".join(seen) == "ab" + "ab" + "ba" + "ab"
    assert [len(times[name]) for name in "ab"] == [3, 3]


def test_no_round_begins_after_the_time_is_over_but_the_first():
    assert len(interleaved({"a": lambda: Seconds(0, 0)}, rounds=9, seconds=-1.0)["a"]) == 1


def test_a_ratio_is_taken_inside_each_round():
    slow, fast = [Seconds(2, 4), Seconds(30, 1), Seconds(8, 1)], [Seconds(1, 1), Seconds(10, 1), Seconds(2, 1)]
    found = ratio(slow, fast)
    assert (found.median, found.low, found.high, found.rounds) == (3.0, 2.5, 3.5, 3)
    assert ratio(slow, fast, "wall").median == 1.0 and median_ms(slow) == 8000.0


def test_a_loop_stops_after_each_step_and_is_unwound():
    seen = []

    def loop(pause):
        try:
            for number in range(100):
                seen.append(number)
                pause()
        finally:
            seen.append("unwound")

    with SteppedLoop(loop) as step:
        assert step().cpu >= 0 and step().wall >= 0 and seen == [0, 1]
    assert seen == [0, 1, "unwound"]


def test_what_a_loop_raises_is_raised_at_its_step():
    def loop(pause):
        pause()
        raise ValueError("broken loop")

    with SteppedLoop(loop) as step:
        step()
        for _ in range(2):
            with pytest.raises(ValueError, match="broken loop"):
                step()


def test_a_loop_that_is_over_says_so():
    with SteppedLoop(lambda pause: pause()) as step:
        step()
        with pytest.raises(StopIteration):
            step()
