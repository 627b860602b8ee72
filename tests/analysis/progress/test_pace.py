"""The time that a sweep still takes, by hand: one run of 100 examples took 50 s, one that runs has 20 of 100."""

from collections.abc import Mapping, Sequence

import pytest
from sqlalchemy import create_engine

from analysis.progress import pace
from analysis.progress import rows as progress_rows
from analysis.progress.rows import ProgressRow

NOW = 1000.0


def row(signature: str, state: str, examples: int, method: str | None = "simcse") -> ProgressRow:
    known = None if method is None else 100
    return ProgressRow("s", signature, {}, 0, state, method=method, examples=examples, total=known)


def left(
    monkeypatch: pytest.MonkeyPatch,
    rows: Sequence[ProgressRow],
    recent: Mapping[str, list[tuple[str, float]]],
    num_samples: int | None = None,
) -> float | None:
    monkeypatch.setattr(progress_rows, "recent", lambda connection, sweep: dict(recent))
    with create_engine("sqlite://").connect() as connection:
        return pace.seconds_left(connection, "s", rows, num_samples, NOW)


ROWS = [row("a", "done", 100), row("b", "running", 20), row("c", "unclaimed", 0, None)]
RECENT = {"a": [("running", 900.0), ("done", 950.0)], "b": [("running", 990.0)]}


def test_what_is_left_at_the_pace_of_the_newest_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    # 60 s for 120 examples: 80 of b and 100 of c are to come
    assert left(monkeypatch, ROWS, RECENT) == pytest.approx(180 * 0.5)


def test_runs_that_a_search_has_not_proposed_count_and_runs_at_once_share(monkeypatch: pytest.MonkeyPatch) -> None:
    assert left(monkeypatch, ROWS, RECENT, num_samples=5) == pytest.approx((180 + 200) * 0.5)
    both = [*ROWS[:2], row("c", "running", 0)]
    assert left(monkeypatch, both, RECENT) == pytest.approx(180 * 0.5 / 2)


def test_nothing_is_told_before_anything_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    assert left(monkeypatch, ROWS, {}) is None
    assert left(monkeypatch, [ROWS[0], ROWS[2]], RECENT) is None
