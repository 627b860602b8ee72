import copy
import pickle
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.ledger import Ledger, LostClaim
from cluster.plan.plan import PlannedRun
from cluster.plan.run_source import ListSource
from cluster.runtime.options import AshaOptions, SweepOptions
from cluster.runtime.storage import StorageFailed
from cluster.sweep import dispatcher as module
from cluster.sweep.dispatcher import Dispatcher
from cluster.sweep.events import SweepEvent
from cse.cli.exit import verdict
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from tests.cluster.jobs import slot_result


def wanted(seed: int) -> PlannedRun:
    run = parse_run({"method": "simcse", "train.seed": seed, "train.examples": 128})
    return PlannedRun(f"signature{seed}", run, {}, {}, seed, "s")


class Driver:
    """A dispatcher with its own claims on a shared ledger, and its events."""

    def __init__(self, folder: Path, seeds: list[int], owner: str, suites=(), lease=60.0, **options: Any) -> None:
        self.events: list[SweepEvent] = []
        self.ledger = Ledger.open(folder / "ledger.db", lease=lease)
        self.observed: list[tuple[Any, ...]] = []
        source = ListSource([wanted(seed) for seed in seeds])
        source.observe = lambda planned, *what: self.observed.append((planned.seed, *what))  # type: ignore[method-assign]
        self.source = source
        self.dispatcher = Dispatcher(
            source,
            self.ledger,
            DataPaths(),
            SweepOptions(storage=folder, **options),
            owner,
            {"s": suites},
            self.events.append,
        )
        self.recorder = self.dispatcher.recorder

    def start(self):
        claimed = self.dispatcher.next_run()
        if claimed:
            claimed.folder.mkdir(parents=True, exist_ok=True)
            self.recorder.started(claimed)
        return claimed

    def train(self, claimed, **changes: Any) -> None:
        (claimed.folder / "best").mkdir(parents=True)
        point = {
            "examples": 128,
            "step": 2,
            "seconds": 1.0,
            "metrics": {"loss": 1.0},
            "best": 60.0,
            "best_examples": 64,
        }
        self.recorder.progressed(claimed, slot_result(points=[point]))
        outcome = {"state": "done", "examples": 128, "best": 60.0, "best_examples": 64, "seconds": 1.5}
        self.recorder.ended(claimed, slot_result(state="done", outcome=outcome, **changes))

    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(module, "POLL_S", 0.0)


def test_a_run_is_claimed_only_when_a_slot_asks_trained_once_and_published_by_rename(tmp_path):
    driver = Driver(tmp_path, [1, 2], "me")
    claimed = driver.start()
    assert [row.signature for row in driver.ledger.runs()] == ["signature1"]
    assert claimed.folder == tmp_path / "runs" / "signature1" / "attempt-1"
    driver.train(claimed)
    row = driver.ledger.run("signature1")
    assert (row.state, row.best, row.best_examples, row.seconds) == ("done", 60.0, 64, 1.5)
    assert row.folder == str(tmp_path / "runs" / "signature1" / "final-1") and not claimed.folder.exists()
    assert driver.kinds() == ["started", "point", "done"]
    assert {event.total_examples for event in driver.events} == {128}
    assert driver.observed == [(1, "done", 60.0, 128)]
    assert not driver.dispatcher.finished()
    driver.train(driver.start())
    assert driver.dispatcher.next_run() is None and driver.dispatcher.finished()
    again = Driver(tmp_path, [1, 2], "me again")
    assert again.dispatcher.next_run() is None and again.dispatcher.finished()
    assert (again.recorder.outcome.reused, again.kinds()) == (2, ["reused", "reused"])


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
    score = {"suite": "a", "value": 50.0, "protocol": {"suite": "a"}}
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
            end = {"state": "running", "examples": 64, "best": 50.0, "best_examples": 64, "seconds": 1.0}
            first.recorder.ended(claimed, slot_result(outcome=end))
        return rows

    monkeypatch.setattr(second.ledger, "runs", read_late)
    assert second.dispatcher.next_run() is None
    row = second.ledger.run("signature1")
    assert (row.state, row.attempt, row.owner) == ("stopped", 1, "one")
    assert second.dispatcher.next_run() is None and second.dispatcher.finished()
    assert second.recorder.outcome.reused == 1


def test_a_run_that_a_slot_gave_up_comes_after_all_others_and_is_lost_after_three_slots(tmp_path):
    driver = Driver(tmp_path, [1, 2], "me")
    first = driver.start()
    driver.dispatcher.lost(first, "machine failed 3 times: CUDA error")
    second = driver.start()
    assert second.planned.seed == 2 and not driver.dispatcher.finished()
    driver.train(second)
    for _ in range(2):
        again = driver.start()
        assert again is first
        driver.dispatcher.lost(again, "machine failed 3 times: CUDA error")
    assert driver.start() is None and driver.dispatcher.finished()
    row = driver.ledger.run("signature1")
    assert (row.state, row.reason) == ("lost", "machine failed 3 times: CUDA error")
    assert driver.observed == [(2, "done", 60.0, 128), (1, "lost", None, None)]
    assert driver.kinds().count("requeued") == 2 and driver.kinds()[-1] == "failed"
    later = Driver(tmp_path, [1], "later").start()
    assert later.claim.attempt == 2 and later.claim.previous_folders


def test_a_slot_in_quarantine_leaves_its_run_to_others_and_that_costs_the_run_no_try(tmp_path):
    driver = Driver(tmp_path, [1], "me")
    claimed = driver.start()
    for _ in range(9):
        driver.dispatcher.refused(claimed, "slot 2 quarantined")
        assert driver.start() is claimed
    driver.train(claimed)
    assert driver.dispatcher.finished() and driver.recorder.outcome.done == 1


def test_what_a_run_waits_for_is_reported_once_and_so_is_its_end(tmp_path):
    driver = Driver(tmp_path, [1], "me")
    claimed = driver.start()
    for waits_for in ("", "no node has room", "no node has room", "", ""):
        driver.recorder.progressed(claimed, slot_result(waits_for=waits_for))
    waits = [event.reason for event in driver.events if event.kind == "waiting"]
    assert waits == ["no node has room", "the cluster has room again"]


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
        dead.recorder.progressed(orphan, slot_result(points=[{"examples": 1, "metrics": {}, "best": 1.0}]))
    with pytest.raises(LostClaim):
        dead.recorder.ended(orphan, slot_result(state="done", outcome={"best": 1.0}))
    assert not list(orphan.folder.parent.glob("final*"))
    dead.dispatcher.taken_over(orphan)
    heir.train(claimed)
    assert dead.dispatcher.next_run() is None and dead.dispatcher.finished()
    assert dead.recorder.outcome.reused == 1 and heir.ledger.run("signature1").best == 60.0


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
        paused.recorder.ended(claimed, slot_result(state="done", outcome={"best": 1.0}))
    folder = Path(heir.ledger.run("signature1").folder)
    assert folder.name == "final-2" and (folder / "best").is_dir() and not (folder / "best" / "whose").exists()


def test_an_old_final_folder_is_where_the_next_attempt_goes_on(tmp_path):
    home = tmp_path / "runs" / "signature1"
    for name in ("final", "final-3", "final-12"):
        (home / name).mkdir(parents=True)
    driver = Driver(tmp_path, [1], "me")
    previous = driver.dispatcher.job(driver.start()).previous
    assert [path.name for path in previous] == ["final-12", "final-3", "final"]


def test_a_stopped_run_is_trained_on_by_a_grid_and_is_an_answer_to_a_search(tmp_path):
    first = Driver(tmp_path, [1], "first", asha=AshaOptions(grace_examples=32, max_examples=128))
    claimed = first.start()
    assert first.dispatcher.job(claimed).gated
    first.recorder.progressed(claimed, slot_result(points=[{"examples": 32, "step": 1, "metrics": {}, "best": 9.0}]))
    first.recorder.ended(claimed, slot_result())
    row = first.ledger.run("signature1")
    assert (row.state, row.examples, row.best, row.folder) == ("stopped", 32, 9.0, str(claimed.folder))
    assert first.recorder.outcome.stopped == 1

    search = Driver(tmp_path, [1], "search")
    search.source.keeps_stopped = True
    assert search.start() is None and search.observed == [(1, "stopped", 9.0, 32)]
    grid = Driver(tmp_path, [1], "grid")
    assert grid.dispatcher.job(grid.start()).previous == (claimed.folder,)


def test_a_suite_added_later_scores_the_stored_checkpoint_and_trains_nothing(tmp_path):
    first = Driver(tmp_path, [1], "first", suites=["a"])
    score = {"suite": "a", "value": 50.0, "protocol": {"suite": "a"}, "cosines_file": "/x/attempt-1/scores/a.npz"}
    first.train(first.start(), scores=[score])
    final = first.ledger.run("signature1").folder
    (stored,) = first.ledger.scores(["signature1"])
    assert stored.cosines_file == str(Path(final, "scores", "a.npz"))

    later = Driver(tmp_path, [1], "later", suites=["a", "b"])
    claimed = later.dispatcher.next_run()
    job = later.dispatcher.job(claimed)
    assert (job.kind, job.suites, job.folder) == ("score", ("b",), Path(final))
    later.recorder.started(claimed)
    more = score | {"suite": "b", "protocol": {"suite": "b"}, "cosines_file": f"{final}/scores/b.npz"}
    later.recorder.ended(claimed, slot_result(state="done", scores=[more]))
    assert {row.suite for row in later.ledger.scores(["signature1"])} == {"a", "b"}
    assert later.ledger.run("signature1").attempt == 1 and later.dispatcher.finished()


def test_a_job_is_pickled_whole_never_copied_and_counts_whole_batches(tmp_path):
    driver = Driver(tmp_path, [1], "me", cpus_per_worker=2)
    claimed = driver.start()
    run = claimed.planned.run
    claimed.planned = replace(claimed.planned, run=replace(run, train=replace(run.train, examples=1000, batch_size=64)))
    job = driver.dispatcher.job(claimed)
    assert pickle.loads(pickle.dumps(job)) == job and copy.deepcopy(job) is job
    assert (job.threads, job.total_examples, job.run) == (2, 960, claimed.planned.run)


def fail(folder: Path, owner: str, reason: str, **options: Any) -> Driver:
    """One command that finds its run failing for this reason, if it trains it at all."""
    driver = Driver(folder, [1], owner, **options)
    claimed = driver.start()
    if claimed:
        driver.recorder.failed(claimed, reason)
    assert driver.dispatcher.finished()
    return driver


def test_a_run_that_failed_twice_the_same_way_is_told_and_left_unless_asked(tmp_path):
    for owner in ("first", "second"):
        fail(tmp_path, owner, "loss is nan")
    third = fail(tmp_path, "third", "never said")
    (failure,) = third.recorder.outcome.failures
    assert failure.reason == "loss is nan (the same way twice; --retry-failed tries again)" and failure.log
    assert third.observed == [(1, "failed", None, None)] and third.ledger.run("signature1").attempt == 2
    assert fail(tmp_path, "asked", "loss is nan", retry_failed=True).ledger.run("signature1").attempt == 3


@pytest.mark.parametrize("reasons", [("loss is nan", "no such file"), ("workers lost 3 times: rank 0 is gone",) * 2])
def test_other_reasons_and_lost_workers_are_tried_again(tmp_path, reasons):
    for reason in reasons:
        fail(tmp_path, reason, reason)
    assert fail(tmp_path, "third", "again").ledger.run("signature1").attempt == 3


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("disk full: path=a/last/state.pt; free some space and run again", "disk full: path=a/last/state.pt; free"),
        ("disk full; free some space and run again", "disk full: storage="),
        ("OSError: [Errno 20] Not a directory", "storage not writable: storage="),
    ],
)
def test_storage_that_takes_no_more_ends_the_sweep_and_fails_no_run(tmp_path, reason, said):
    driver = Driver(tmp_path, [1, 2], "me")
    claimed = driver.start()
    if "disk full" not in reason:
        (tmp_path / "file").touch()
        driver.recorder.options = replace(driver.dispatcher.options, storage=tmp_path / "file")
    with pytest.raises(StorageFailed, match="the same command continues") as raised:
        driver.recorder.failed(claimed, reason)
    code, (line,) = verdict(raised.value)
    assert code == 1 and line.startswith(said)
    row = driver.ledger.run("signature1")
    assert (row.state, row.reason, driver.recorder.outcome.failures) == ("lost", reason, ())


def test_a_finished_run_with_a_damaged_model_is_told_and_trained_again_by_the_same_command(tmp_path):
    first = Driver(tmp_path, [1], "first")
    first.train(first.start())
    scorer = Driver(tmp_path, [1], "scorer", suites=["a"])
    claimed = scorer.start()
    assert scorer.dispatcher.job(claimed).kind == "score"
    scorer.recorder.failed(claimed, "corrupt checkpoint: /x/best/model.safetensors: cut short; train the run again")
    (failure,) = scorer.recorder.outcome.failures
    assert failure.reason.endswith("cut short; give the same command again, which trains the run again")
    row = scorer.ledger.run("signature1")
    assert (row.state, row.best) == ("lost", 60.0) and "cut short" in row.reason
    again = Driver(tmp_path, [1], "again", suites=["a"])
    claimed = again.start()
    job = again.dispatcher.job(claimed)
    assert (job.kind, job.folder.name) == ("train", "attempt-2") and job.previous[0].name == "final-1"
    again.train(claimed)
    assert again.ledger.run("signature1").state == "done" and again.dispatcher.finished()


def test_a_finished_run_without_its_folder_is_trained_again_where_scores_are_wanted(tmp_path):
    first = Driver(tmp_path, [1], "first")
    first.train(first.start())
    shutil.rmtree(tmp_path / "runs" / "signature1")
    assert Driver(tmp_path, [1], "as before").start() is None
    elsewhere = Driver(tmp_path, [1], "elsewhere", suites=["a"])
    elsewhere.dispatcher.options = replace(elsewhere.dispatcher.options, storage=tmp_path / "other")
    assert elsewhere.dispatcher.next_run() is None
    wanted_scores = Driver(tmp_path, [1], "scores", suites=["a"])
    claimed = wanted_scores.start()
    assert claimed.claim.attempt == 2 and wanted_scores.dispatcher.job(claimed).kind == "train"
