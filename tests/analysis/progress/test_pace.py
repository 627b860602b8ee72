"""The time that a sweep still takes, by hand: one run of 100 examples took 50 s, one that runs has 20 of 100."""

import pytest

from analysis.progress.rows import ProgressRow
from analysis.progress.sweeps import seconds_left

NOW = 1000.0


def row(signature: str, state: str, examples: int, method: str | None = "simcse") -> ProgressRow:
    known = None if method is None else 100
    return ProgressRow("s", signature, {}, 0, state, method=method, examples=examples, total=known)


ROWS = [row("a", "done", 100), row("b", "running", 20), row("c", "unclaimed", 0, None)]
RECENT = {"a": [("running", 900.0), ("done", 950.0)], "b": [("running", 990.0)]}


def test_what_is_left_at_the_pace_of_the_newest_runs() -> None:
    # 60 s for 120 examples: 80 of b and 100 of c are to come
    assert seconds_left(ROWS, RECENT, 0, NOW) == pytest.approx(180 * 0.5)


def test_runs_that_a_search_has_not_proposed_count_and_runs_at_once_share() -> None:
    assert seconds_left(ROWS, RECENT, 5, NOW) == pytest.approx((180 + 200) * 0.5)
    both = [*ROWS[:2], row("c", "running", 0)]
    assert seconds_left(both, RECENT, 0, NOW) == pytest.approx(180 * 0.5 / 2)


def test_nothing_is_told_before_anything_is_known() -> None:
    assert seconds_left(ROWS, {}, 0, NOW) is None
    assert seconds_left([ROWS[0], ROWS[2]], RECENT, 0, NOW) is None
