"""Which reports a slot answers: those of a gated job, whose ranks wait for it. No Ray is started."""

from types import SimpleNamespace

import pytest

from cluster.slots.health import Pace
from cluster.slots.slot import Slot
from tests.cluster.jobs import job, run_of
from tests.run_values import point_of


def slot_of(*, gated: bool) -> tuple[Slot, list[tuple[int, int]]]:
    """A slot at job 7 of 64 examples, and the answers that its group gets."""
    slot, answers = object.__new__(Slot), []
    slot.group = SimpleNamespace(proceed=lambda *answer: answers.append(answer))
    slot.job = job(gated=gated, run=run_of(examples=64))
    slot.number, slot.undecided, slot.points, slot.examples, slot.judged, slot.best = 7, None, [], 0, 0, 0.0
    slot.echo, slot.group.lost, slot.scores, slot.pace = None, lambda: "", [], Pace()
    slot.group.waits_for, slot.group.has_ranks = str, bool
    return slot, answers


@pytest.mark.parametrize(("gated", "answers"), [(True, [(7, 0), (7, 1)]), (False, [])])
def test_only_ranks_that_wait_are_answered(gated, answers):
    slot, given = slot_of(gated=gated)
    assert slot._handle_point(0, point_of(32))["state"] == "running"
    slot._answer()
    assert slot._handle_point(1, point_of(64)) is None, "the last point is told with the end"
    assert given == answers and [point.examples for point in slot.points] == [64]


def test_silence_after_the_last_point_is_news_of_what_was_judged():
    """Tune would take 64 examples for a rung, and stop a run that has none left to train."""
    slot, _ = slot_of(gated=True)
    slot._handle_point(0, point_of(32))
    slot._handle_point(1, point_of(64))
    silent, end = slot._handle_silence(0.0), slot._final("done", "")
    assert (silent["examples"], silent["state"]) == (32, "running")
    assert [point.examples for point in silent["points"]] == [64]
    assert (end["examples"], end["done"]) == (64, True)
