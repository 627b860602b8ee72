import copy
import pickle
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cluster.runtime.options import AshaOptions
from cluster.runtime.storage import StorageFailed
from cluster.sweep import dispatcher as module
from cluster.sweep.events import EventKind
from cse.cli.exit import verdict
from tests.cluster.jobs import slot_result
from tests.cluster.sweep.list_driver import Driver
from tests.run_values import point_of, score_of


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(module, "DISPATCHER_POLL_SECONDS", 0.0)


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


def test_a_run_that_shared_a_full_card_gets_a_whole_one_after_all_others(tmp_path):
    driver = Driver(tmp_path, [1, 2], "me", gpus_per_worker=0.5)
    first = driver.start()
    assert driver.dispatcher.job(first).gpus == 0.5
    driver.dispatcher.crowded(first, "out of memory: CUDA out of memory")
    second = driver.start()
    assert second.planned.seed == 2 and driver.dispatcher.job(second).gpus == 0.5
    driver.train(second)
    again = driver.start()
    assert again is first and driver.dispatcher.job(again).gpus == 1 and again.lost == 0
    (said,) = [event.reason for event in driver.events if event.kind == "requeued"]
    assert said == "tried again alone on a whole card; out of memory: CUDA out of memory"
    driver.train(again)
    assert driver.dispatcher.finished() and driver.recorder.outcome.done == 2
    assert driver.ledger.run("signature1").attempt == 1


def test_a_slot_in_quarantine_leaves_its_run_to_others_and_that_costs_the_run_no_try(tmp_path):
    driver = Driver(tmp_path, [1], "me")
    claimed = driver.start()
    for _ in range(9):
        driver.dispatcher.leave_to_others(claimed, EventKind.RESTING, "slot 2 quarantined")
        assert driver.start() is claimed
    driver.train(claimed)
    assert driver.dispatcher.finished() and driver.recorder.outcome.done == 1


def test_what_a_run_waits_for_is_reported_once_and_so_is_its_end(tmp_path):
    driver = Driver(tmp_path, [1], "me")
    claimed = driver.start()
    for waits_for in ("", "no node has room", "no node has room", "", ""):
        driver.recorder.progressed(claimed, slot_result(waits_for=waits_for))
    waits = [event.reason for event in driver.events if event.kind == "waiting"]
    assert waits == ["no node has room", "it goes on"]


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
    first.recorder.progressed(claimed, slot_result(points=[point_of(32, 9.0)]))
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
    first.train(first.start(), scores=[score_of("a", 50.0, {"suite": "a"}, "/x/attempt-1/scores/a.npz")])
    final = first.ledger.run("signature1").folder
    (stored,) = first.ledger.scores(["signature1"])
    assert stored.cosines_file == str(Path(final, "scores", "a.npz"))

    later = Driver(tmp_path, [1], "later", suites=["a", "b"])
    claimed = later.dispatcher.next_run()
    job = later.dispatcher.job(claimed)
    assert (job.kind, job.suites, job.folder) == ("score", ("b",), Path(final))
    later.recorder.started(claimed)
    more = score_of("b", 50.0, {"suite": "b"}, f"{final}/scores/b.npz")
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


def test_a_run_that_fails_for_an_input_keeps_those_that_need_it_from_being_started(tmp_path):
    """One line, and the runs that are left are as new for the next call; a finished one still counts."""
    before = Driver(tmp_path, [3], "before")
    before.train(before.start())
    driver = Driver(tmp_path, [1, 2, 3], "me")
    reason = "missing input: missing folder: train.encoder=/gone/enc; valid: words-l1-h64"
    lacks = {"train.encoder": driver.start().planned.run.train.encoder}
    claimed = driver.recorder.open["signature1"]
    driver.dispatcher.ended(claimed, slot_result(state="failed", reason=reason, lacking=lacks))
    assert driver.start() is None and driver.dispatcher.finished()
    outcome = driver.recorder.outcome
    assert ([f.reason for f in outcome.failures], outcome.not_started, outcome.reused) == ([reason], 1, 1)
    assert driver.ledger.run("signature2") is None
    for _ in range(3):  # however often it failed so, the next call tries it
        again = Driver(tmp_path, [1], "again")
        again.dispatcher.ended(again.start(), slot_result(state="failed", reason=reason, lacking=lacks))
    assert Driver(tmp_path, [1], "later").start() is not None


def test_another_encoders_runs_go_on_where_one_is_absent(tmp_path):
    driver = Driver(tmp_path, [1, 2], "me")
    lacks = {"train.encoder": "/gone/enc"}
    driver.dispatcher.ended(driver.start(), slot_result(state="failed", reason="missing input: ...", lacking=lacks))
    assert driver.start().planned.seed == 2


def test_a_search_ends_where_an_input_of_a_proposal_is_absent(tmp_path):
    driver = Driver(tmp_path, [1, 2], "me")
    driver.source.proposes = True
    lacks = {"train.encoder": "/gone/enc"}
    driver.dispatcher.ended(driver.start(), slot_result(state="failed", reason="missing input: ...", lacking=lacks))
    assert driver.start() is None and driver.dispatcher.finished()
