from pathlib import Path

import pytest

from analysis.ledger import Ledger, LostClaim
from cluster.sweep import dispatcher as module
from tests.cluster.jobs import slot_result
from tests.cluster.sweep.list_driver import Driver
from tests.run_values import outcome_of, point_of, score_of


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(module, "DISPATCHER_POLL_SECONDS", 0.0)


def test_two_drivers_share_the_runs_and_each_waits_for_the_others_result(tmp_path):
    first, second = Driver(tmp_path, [1, 2, 3], "one"), Driver(tmp_path, [1, 2, 3], "two")
    held = first.start(), second.start()
    assert [claimed.planned.seed for claimed in held] == [1, 2]
    assert second.kinds() == ["waiting", "started"] and "one" in second.events[0].reason
    third = first.start()
    assert third.planned.seed == 3
    assert second.dispatcher.next_run() is None and not second.dispatcher.finished()
    for driver, claimed in ((first, held[0]), (first, third), (second, held[1])):
        driver.train(claimed)
    for driver in (first, second):
        assert driver.dispatcher.next_run() is None and driver.dispatcher.finished()
    assert (first.recorder.outcome.done, first.recorder.outcome.reused) == (2, 1)
    assert (second.recorder.outcome.done, second.recorder.outcome.reused) == (1, 2)
    assert all(row.attempt == 1 for row in first.ledger.runs())


def asked_of(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ledger's methods that a driver calls from now on to read and claim runs."""
    asked: list[str] = []
    for name in ("runs", "scores", "claim"):
        call = getattr(ledger, name)
        monkeypatch.setattr(
            ledger, name, lambda *given, call=call, name=name, **more: asked.append(name) or call(*given, **more)
        )
    return asked


def test_runs_that_others_hold_are_passed_in_one_look(tmp_path, monkeypatch):
    """Of 12 runs another driver holds 10: the first is read, the others together, and a claim is tried on none."""
    first, second = Driver(tmp_path, range(12), "one"), Driver(tmp_path, range(12), "two")
    held = [first.start() for _ in range(10)]
    asked = asked_of(second.ledger, monkeypatch)
    taken = second.dispatcher.next_run().planned.seed
    assert asked == ["runs", "runs", "claim"]
    assert second.kinds() == ["waiting"] * 10 and len(second.dispatcher.waiting) == 10
    first.train(held[0])
    left = second.dispatcher.next_run().planned.seed
    assert {taken, left} == {10, 11} and second.recorder.outcome.reused == 1


def test_behind_a_new_run_the_next_is_claimed_without_a_look(tmp_path, monkeypatch):
    """Of four new runs another driver meanwhile takes and ends the third: that one is looked at and not trained."""
    first, second = Driver(tmp_path, range(4), "one"), Driver(tmp_path, [2], "two")
    asked = asked_of(first.ledger, monkeypatch)
    assert [first.dispatcher.next_run().planned.seed for _ in range(2)] == [0, 1]
    assert asked == ["runs", "claim", "claim"]
    second.train(second.start())
    assert first.dispatcher.next_run().planned.seed == 3
    assert asked[3:] == ["claim", "runs", "runs", "claim"] and first.recorder.outcome.reused == 1


@pytest.mark.parametrize("state", ["failed", "stopped"])
def test_a_run_that_ended_without_a_result_is_looked_at_before_it_is_tried_again(tmp_path, monkeypatch, state):
    other = Driver(tmp_path, [1], "two")
    other.recorder.ended(other.start(), slot_result(state={"stopped": "running"}.get(state, state), reason="nan"))
    driver = Driver(tmp_path, [0, 1], "one")
    driver.start()
    asked = asked_of(driver.ledger, monkeypatch)
    assert driver.dispatcher.next_run().claim.attempt == 2
    assert asked == ["claim", "runs", "claim"]


def test_runs_that_others_ended_are_taken_in_with_one_look_at_runs_and_one_at_scores(tmp_path, monkeypatch):
    first = Driver(tmp_path, range(10), "one", suites=("a",))
    score = score_of("a", 50.0, {"suite": "a"})
    for _ in range(10):
        first.train(first.start(), scores=[score])
    second = Driver(tmp_path, range(11), "two", suites=("a",))
    asked = asked_of(second.ledger, monkeypatch)
    assert second.dispatcher.next_run().planned.seed == 10
    assert asked == ["runs", "scores", "runs", "scores", "claim"] and second.recorder.outcome.reused == 10


def test_drivers_of_one_list_go_on_at_different_runs_of_it(tmp_path):
    """Sixteen drivers look at one moment where others hold the first runs: few choose the same next run."""
    drivers = [Driver(tmp_path, range(200), f"driver {number}") for number in range(16)]
    for driver in drivers:
        driver.start()
    chosen = []
    for driver in drivers:
        driver.dispatcher._look_ahead()
        chosen.append(next(run.seed for run in driver.source.ahead(200) if not driver.ledger.run(run.signature)))
    assert len(set(chosen)) >= 10 and max(chosen) < 16 + 4 * 15


def test_a_run_that_is_stopped_while_a_driver_looks_is_not_trained_on(tmp_path, monkeypatch):
    first, second = Driver(tmp_path, [1], "one"), Driver(tmp_path, [1], "two")
    for driver in (first, second):
        driver.source.keeps_stopped = True
    claimed = first.start()
    read = second.ledger.runs

    def read_late(**asked):
        rows = read(**asked)
        if rows[0].state == "running":
            end = outcome_of(examples=64, best=50.0, best_examples=64)
            first.recorder.ended(claimed, slot_result(outcome=end))
        return rows

    monkeypatch.setattr(second.ledger, "runs", read_late)
    assert second.dispatcher.next_run() is None
    row = second.ledger.run("signature1")
    assert (row.state, row.attempt, row.owner) == ("stopped", 1, "one")
    assert second.dispatcher.next_run() is None and second.dispatcher.finished()
    assert second.recorder.outcome.reused == 1


def test_a_failure_of_another_driver_is_not_tried_again_here(tmp_path):
    first, second = Driver(tmp_path, [1], "one"), Driver(tmp_path, [1], "two")
    claimed = first.start()
    assert second.start() is None
    first.recorder.failed(claimed, "loss is nan")
    assert second.start() is None and second.dispatcher.finished()
    assert [f.reason for f in second.recorder.outcome.failures] == ["loss is nan"]
    later = Driver(tmp_path, [1], "later")
    assert later.start().claim.attempt == 2


def test_a_dead_drivers_run_is_taken_over_and_its_orphan_can_neither_report_nor_publish(tmp_path):
    dead = Driver(tmp_path, [1], "dead", lease=-1.0)
    orphan = dead.start()
    (orphan.folder / "best").mkdir()
    heir = Driver(tmp_path, [1], "heir")
    claimed = heir.start()
    assert claimed.folder.name == "attempt-2"
    assert heir.dispatcher.job(claimed).previous == (orphan.folder,)
    with pytest.raises(LostClaim):
        dead.recorder.progressed(orphan, slot_result(points=[point_of(1)]))
    with pytest.raises(LostClaim):
        dead.recorder.ended(orphan, slot_result(state="done", outcome=outcome_of()))
    assert not list(orphan.folder.parent.glob("final*"))
    dead.dispatcher.taken_over(orphan)
    heir.train(claimed)
    assert dead.dispatcher.next_run() is None and dead.dispatcher.finished()
    assert dead.recorder.outcome.reused == 1 and heir.ledger.run("signature1").best == 60.0


def test_a_driver_that_pauses_between_its_look_and_its_rename_replaces_nothing(tmp_path, monkeypatch):
    paused, heir = Driver(tmp_path, [1], "paused", lease=-1.0), Driver(tmp_path, [1], "heir")
    claimed = paused.start()
    (claimed.folder / "best").mkdir()
    (claimed.folder / "best" / "whose").write_text("paused")
    look = paused.ledger.stands

    def taken_over_meanwhile(claim):
        state = look(claim)
        taken = heir.start()
        heir.train(taken)
        return state

    monkeypatch.setattr(paused.ledger, "stands", taken_over_meanwhile)
    with pytest.raises(LostClaim):
        paused.recorder.ended(claimed, slot_result(state="done", outcome=outcome_of()))
    folder = Path(heir.ledger.run("signature1").folder)
    assert folder.name == "final-2" and (folder / "best").is_dir() and not (folder / "best" / "whose").exists()


def test_a_folder_published_but_not_booked_is_where_the_next_attempt_goes_on(tmp_path):
    driver = Driver(tmp_path, [1], "killed", lease=-1.0)
    claimed = driver.start()
    (claimed.folder / "last").mkdir()
    assert driver.recorder._publish(claimed).name == "final-1"
    heir = Driver(tmp_path, [1], "heir")
    taken = heir.start()
    assert heir.dispatcher.job(taken).previous[0] == tmp_path / "runs" / "signature1" / "final-1"
    heir.train(taken)
    assert Path(heir.ledger.run("signature1").folder, "best").is_dir()
