"""Two ledgers on one storage never share a run's folder, and what one has trained the other takes over."""

import json
import shutil
import threading
from pathlib import Path

import pytest

from analysis.ledger import Claim
from analysis.ledger.rows import RunRow
from analysis.run_folder import RunFolder
from analysis.sweep_spec import SweepSpec
from cluster.plan.plan import PlannedRun
from cluster.sweep import run_folders
from cluster.sweep.retention import plan_cleaning, remove
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.results import Point
from cse_train.training.loop import train
from tests.cluster.jobs import slot_result
from tests.cluster.sweep.list_driver import Driver

SETTINGS = {
    "method": "simcse",
    "train.encoder": "words-l1-h64",
    "train.corpus": "generated",
    "train.dev": "generated_dev:20",
    "train.examples": 32,
    "train.batch_size": 8,
    "train.evaluations": 2,
}


def run_of(seed: int) -> PlannedRun:
    return PlannedRun(f"signature{seed}", parse_run(SETTINGS | {"train.seed": seed}), {}, {}, seed, "s")


def trained(driver: Driver) -> Path:
    """Really train the next run of a driver; the folder in which it is recorded."""
    claimed = driver.start()
    points: list[Point] = []

    def report(point: Point) -> bool:
        points.append(point)
        return False

    signature = claimed.planned.signature
    outcome = train(claimed.planned.run, DataPaths(), claimed.folder, report, signature=signature)
    driver.recorder.progressed(claimed, slot_result(points=points))
    driver.recorder.ended(claimed, slot_result(state="done", outcome=outcome))
    return Path(row_of(driver, signature).folder or "")


def row_of(driver: Driver, signature: str) -> RunRow:
    row = driver.ledger.run(signature)
    assert row is not None
    return row


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A storage with one run, trained under the ledger one.db."""
    folder = tmp_path_factory.mktemp("used")
    driver = Driver(folder, [run_of(1)], "one", file="one.db")
    trained(driver)
    driver.ledger.close()
    return folder


@pytest.fixture
def used(pristine: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(pristine, tmp_path / "results"))


def test_a_second_ledger_takes_over_what_is_finished_and_trains_nothing(used: Path) -> None:
    one = Driver(used, [run_of(1)], "one", file="one.db")
    two = Driver(used, [run_of(1)], "two", file="two.db")
    assert two.dispatcher.next_run() is None and two.dispatcher.finished()
    assert (two.recorder.outcome.reused, two.recorder.outcome.done) == (1, 0)
    assert [event.reason for event in two.events if event.kind == "ledger"] == [
        f"runs of these signatures are finished in storage={used}: they are taken over, not trained again"
    ]
    before, after = row_of(one, "signature1"), row_of(two, "signature1")
    same = ("state", "examples", "best", "best_examples", "seconds", "config", "identity", "attempt")
    assert [getattr(after, name) for name in same] == [getattr(before, name) for name in same]
    assert two.ledger.curve("signature1") == one.ledger.curve("signature1") != []
    assert two.observed == [(1, "done", before.best, 32)]
    assert Path(before.folder or "").name == "final-1" and Path(after.folder or "").name == "final-1-2"
    (origin,), (told,) = (driver.ledger.provenance(["signature1"])["signature1"] for driver in (one, two))
    assert told.details == origin.details | {"adopted": "runs/signature1/final-1"}


def test_neither_ledger_deletes_what_the_other_has(used: Path) -> None:
    one = Driver(used, [run_of(1)], "one", file="one.db")
    two = Driver(used, [run_of(1), run_of(2)], "two", file="two.db")
    better = trained(two)
    for driver, mine, theirs in ((one, "final-1", "final-1-2"), (two, "final-1-2", "final-1")):
        driver.ledger.record_sweep("s", SweepSpec({}))
        driver.ledger.link("s", [("signature1", {}, 1), ("signature2", {}, 2)])
        before = sorted((used / "runs" / "signature1" / theirs).rglob("*"))
        removable = plan_cleaning(driver.ledger, used, 0, 1).removable
        assert all(item.folder.is_relative_to(used / "runs" / "signature1" / mine) for item in removable)
        remove(driver.ledger, removable)
        assert sorted((used / "runs" / "signature1" / theirs).rglob("*")) == before
    assert (better / "best").is_dir()


def test_a_ledger_deletes_nothing_in_a_storage_where_another_has_a_folder_of_the_same_name(
    used: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    shutil.move(used / "one.db", tmp_path / "one.db")
    shutil.copytree(used / "runs", elsewhere / "runs")
    mark = elsewhere / "runs" / "signature1" / "final-1" / "attempt.json"
    mark.write_text(json.dumps(json.loads(mark.read_text()) | {"owner": "another"}))
    one = Driver(elsewhere, [run_of(1)], "one", file="../one.db")
    assert row_of(one, "signature1").folder == str(mark.parent)
    assert plan_cleaning(one.ledger, elsewhere, 0, 1).removable == ()


def test_files_that_two_ledgers_have_take_their_place_once(used: Path) -> None:
    one = Driver(used, [run_of(1)], "one", file="one.db")
    before = plan_cleaning(one.ledger, used, None, None).used
    two = Driver(used, [run_of(1)], "two", file="two.db")
    two.dispatcher.next_run()
    assert before < plan_cleaning(one.ledger, used, None, None).used < before + 2000


@pytest.mark.parametrize("damaged", ["last/state.pt", "best/model.safetensors"])
def test_a_damaged_run_of_another_ledger_is_trained_in_a_folder_of_its_own(used: Path, damaged: str) -> None:
    file = used / "runs" / "signature1" / "final-1" / damaged
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 255
    file.write_bytes(data)
    two = Driver(used, [run_of(1)], "two", file="two.db")
    claimed = two.start()
    assert claimed.folder.name == "attempt-1-2" and two.dispatcher.job(claimed).previous == ()
    assert file.read_bytes() == data


def test_another_run_s_checkpoints_and_those_of_a_shorter_run_are_not_taken_over(used: Path) -> None:
    (used / "runs" / "signature1").rename(used / "runs" / "signature2")
    longer = PlannedRun("signature1", parse_run(SETTINGS | {"train.examples": 64}), {}, {}, 1, "s")
    two = Driver(used, [run_of(2)], "two", file="two.db")
    assert two.start().claim is not None
    (used / "runs" / "signature2").rename(used / "runs" / "signature1")
    three = Driver(used, [longer], "three", file="three.db")
    assert three.start().claim is not None


def test_a_driver_that_died_before_it_recorded_the_end_loses_nothing(used: Path) -> None:
    dying = Driver(used, [run_of(2)], "dying", file="one.db", lease=-1.0)
    claimed = dying.start()
    train(claimed.planned.run, DataPaths(), claimed.folder, lambda point: False, signature="signature2")
    dying.recorder._publish(claimed)
    heir = Driver(used, [run_of(2)], "heir", file="one.db")
    assert heir.dispatcher.next_run() is None and heir.dispatcher.finished()
    row = row_of(heir, "signature2")
    assert (row.state, row.attempt, Path(row.folder or "").name) == ("done", 2, "final-2")
    superseded = plan_cleaning(heir.ledger, used, None, None).removable
    assert [(item.kind, item.folder.name) for item in superseded] == [("superseded", "final-1")]


def test_two_ledgers_that_begin_at_one_moment_publish_into_folders_of_their_own(tmp_path: Path) -> None:
    drivers = [Driver(tmp_path, [1], name, file=f"{name}.db") for name in ("one", "two", "three")]
    held = [driver.start() for driver in drivers]
    assert [claimed.folder.name for claimed in held] == ["attempt-1", "attempt-1-2", "attempt-1-3"]
    for driver, claimed in zip(drivers, held, strict=True):
        assert driver.dispatcher.job(claimed).previous == ()
        driver.train(claimed)
    folders = [Path(row_of(driver, "signature1").folder or "") for driver in drivers]
    assert [folder.name for folder in folders] == ["final-1", "final-1-2", "final-1-3"]
    assert all((folder / "best").is_dir() for folder in folders)


def test_a_name_is_given_out_once_however_many_ask(tmp_path: Path) -> None:
    taken: list[Path] = []
    begun = threading.Barrier(6)

    def take(number: int) -> None:
        begun.wait()
        for _ in range(8):
            folder = run_folders.begin(tmp_path / "home", Claim("s", 1, f"driver {number}"), {})
            taken.append(folder.path.rename(folder.published.path))

    threads = [threading.Thread(target=take, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(taken)) == len(taken) == 48 == len(list((tmp_path / "home").iterdir()))


def test_a_driver_killed_before_it_marked_its_folder_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / "runs" / "signature1" / "attempt-1").mkdir(parents=True)
    driver = Driver(tmp_path, [1], "next")
    driver.train(driver.start())
    assert Path(row_of(driver, "signature1").folder or "").name == "final-1-2"
    assert plan_cleaning(driver.ledger, tmp_path, None, None).over == 0


def test_a_home_that_is_no_folder_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    for name in ("gone", "file"):
        with pytest.raises(OSError):
            run_folders.begin(tmp_path / name, Claim("s", 1, "me"), {})


@pytest.mark.parametrize("mark", ["", "[]", "{}", '{"provenance": 3, "attempt": [1]}', "[" * 100_000])
def test_a_mark_that_says_nothing_leaves_a_run_that_can_be_taken_over(used: Path, mark: str) -> None:
    (used / "runs" / "signature1" / "final-1" / "attempt.json").write_text(mark)
    two = Driver(used, [run_of(1)], "two", file="two.db")
    assert two.dispatcher.next_run() is None and two.dispatcher.finished()
    (told,) = two.ledger.provenance(["signature1"])["signature1"]
    assert told.details["adopted"] == "runs/signature1/final-1" and "code_digest" not in told.details


def test_a_run_set_aside_twice_keeps_both(tmp_path: Path) -> None:
    for name in ("final-1", "final-1-2"):
        (tmp_path / name).mkdir()
        (tmp_path / name).rename(RunFolder(tmp_path / name).set_aside(1).path)
    (tmp_path / "final").mkdir()
    (tmp_path / "final").rename(RunFolder(tmp_path / "final").set_aside(3).path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["unbooked-1", "unbooked-1-2", "unbooked-3"]
