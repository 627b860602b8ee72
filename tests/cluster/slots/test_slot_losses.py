"""Lost workers and lost nodes: counted apart, each so many times, told in the reason. No Ray is started."""

import time
from collections import Counter, deque
from types import SimpleNamespace

import pytest

from cluster.slots.slot import Slot
from cluster.sweep.dispatcher import LOST
from tests.cluster.jobs import job, slot_settings


def slot_that_loses(nodes: list[bool], max_retries: int) -> tuple[Slot, list[dict]]:
    """A slot whose group is lost once for each entry, with its node where that says so; and what it answered."""
    slot = object.__new__(Slot)
    causes = iter(nodes)
    slot.group = SimpleNamespace(node_lost=lambda: next(causes), abort=lambda: None, submit=lambda *job: 1)
    slot.job = job()
    slot.settings, slot.losses = slot_settings(max_retries=max_retries), Counter()
    slot.points, slot.scores, slot.examples, slot.judged, slot.best = [], [], 0, 0, 0.0
    slot.events = SimpleNamespace(clear=lambda: None)
    return slot, [slot._on_lost("rank 0 is gone") for _ in nodes]


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ([False, False], "workers lost 2 times: rank 0 is gone"),
        ([True, True], "nodes lost 2 times: rank 0 is gone"),
        ([True, False, False], "nodes lost 1 times and workers lost 2 times: rank 0 is gone"),
    ],
)
def test_each_cause_has_its_own_number_of_times(nodes, reason):
    _, answers = slot_that_loses(nodes, max_retries=1)
    assert [answer["state"] for answer in answers] == ["running"] * (len(nodes) - 1) + ["failed"]
    assert answers[-1]["reason"] == reason and reason.startswith(LOST)
    assert answers[0]["retried"] == ("node lost: " if nodes[0] else "") + "rank 0 is gone"


def test_a_step_without_news_lasts_as_long_as_its_setting_and_looks_after_the_group_meanwhile():
    slot, looks = object.__new__(Slot), []
    slot.group = SimpleNamespace(events=lambda seconds: time.sleep(0.02) or [], lost=lambda: looks.append("look"))
    slot.events, slot.points, slot.undecided, slot.echo = deque(), [], None, None
    slot.examples, slot.judged, slot.best, slot.settings = 0, 0, 0.0, slot_settings(quiet_s=0.2)
    begun = time.monotonic()
    assert slot._next_result()["state"] == "running"
    assert time.monotonic() - begun >= 0.2 and len(looks) >= 2
