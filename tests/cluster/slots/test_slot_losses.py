"""Lost workers, lost nodes and errors of the machine: counted apart, each so many times, said in the reason. No Ray."""

import time
from collections import deque
from types import SimpleNamespace

import pytest

from cluster.slots.health import Losses, Pace, Quarantine
from cluster.slots.slot import Slot
from tests.cluster.jobs import job, slot_settings


def slot_that_loses(causes: list[str], max_retries: int, signature: str = "signature0") -> tuple[Slot, list[dict]]:
    """A slot whose group is lost once for each entry; and what it answered."""
    slot = object.__new__(Slot)
    slot.calls = []
    slot.group = SimpleNamespace(abort=lambda: slot.calls.append("abort"), submit=lambda *job: 1)
    slot.job, slot.settings = job(signature=signature), slot_settings(max_retries=max_retries)
    slot.losses, slot.pace, slot.quarantine = Losses(max_retries), Pace(), Quarantine()
    slot.points, slot.scores, slot.examples, slot.judged, slot.best = [], [], 0, 0, 0.0
    slot.events, slot.holds_ranks = SimpleNamespace(clear=lambda: None), False
    return slot, [slot._handle_loss("rank 0 is gone", cause) for cause in causes]


@pytest.mark.parametrize(
    ("causes", "reason"),
    [
        (["workers", "workers"], "workers lost 2 times: rank 0 is gone"),
        (["nodes", "nodes"], "nodes lost 2 times: rank 0 is gone"),
        (["machine", "machine"], "machine failed 2 times: rank 0 is gone"),
        (["nodes", "workers", "workers"], "nodes lost 1 times and workers lost 2 times: rank 0 is gone"),
    ],
)
def test_each_cause_has_its_own_number_of_times(causes, reason):
    _, answers = slot_that_loses(causes, max_retries=1)
    assert [answer["state"] for answer in answers] == ["running"] * (len(causes) - 1) + ["lost"]
    assert answers[-1]["reason"] == reason and answers[-1]["done"]
    assert answers[0]["retried"] == ("node lost: " if causes[0] == "nodes" else "") + "rank 0 is gone"


def test_a_run_that_goes_on_between_two_losses_is_not_given_up():
    slot, _ = slot_that_loses(["nodes"], max_retries=1)
    for examples in (10, 20, 30):
        slot.examples = examples
        assert slot._handle_loss("preempted", "nodes")["state"] == "running"
    assert slot._handle_loss("preempted", "nodes")["state"] == "lost"


def test_a_slot_that_loses_two_runs_rests_and_keeps_the_processes_of_a_sick_machine():
    slot, _ = slot_that_loses(["machine"], max_retries=0)
    assert slot.quarantine.left_s < 0 and slot.calls == ["abort"]
    slot.job, slot.losses = job(signature="another"), Losses(0)
    assert slot._handle_loss("CUDA error", "machine")["state"] == "lost"
    assert slot.quarantine.left_s > 0 and slot.holds_ranks and slot.calls == ["abort"]


def test_lost_nodes_are_no_reason_to_rest():
    slot, _ = slot_that_loses(["nodes"], max_retries=0)
    slot.job, slot.losses = job(signature="another"), Losses(0)
    assert slot._handle_loss("gone", "nodes")["state"] == "lost" and slot.quarantine.left_s < 0


def test_a_step_without_news_lasts_as_long_as_its_setting_and_looks_after_the_group_meanwhile():
    slot, looks = object.__new__(Slot), []
    slot.group = SimpleNamespace(
        events=lambda seconds: time.sleep(0.02) or [], lost=lambda: looks.append("look"), waits_for=str, has_ranks=bool
    )
    slot.events, slot.points, slot.undecided, slot.echo = deque(), [], None, None
    slot.examples, slot.judged, slot.best, slot.settings = 0, 0, 0.0, slot_settings(quiet_s=0.2)
    slot.job, slot.pace = job(), Pace()
    begun = time.monotonic()
    assert slot._next_result()["state"] == "running"
    assert time.monotonic() - begun >= 0.2 and len(looks) >= 2
