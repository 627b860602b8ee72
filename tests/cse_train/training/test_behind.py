"""Checkpoints behind the step: how often they are written, by which thread, and what a kill or a stop leaves."""

import errno
import gc
import json
import os
import subprocess
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from cse_train import checkpoint, files
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.fields import Json
from cse_train.training import async_checkpoints, saver
from cse_train.training.loop import Point, train
from cse_train.training.saver import Saver

KILLED = Path(__file__).parents[1] / "programs" / "killed_behind.py"
WRITE_S = 1.0
"""Seconds that a write of the program's may take on a machine that others use."""


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files of checkpoints that are written, with what writes them."""
    written: list[str] = []
    replace = files.replace_file

    def noted(path: Path, write: Callable) -> None:
        replace(path, write)
        written.append(f"{path.name} by {threading.current_thread().name}")

    monkeypatch.setattr(checkpoint, "replace_file", noted)
    return written


def values(state: Json) -> Json:
    """All that a state has but its clock."""
    points = [{name: value for name, value in point.items() if name != "seconds"} for point in state["points"]]
    tensors = dict(state["model"])
    tensors |= {f"{n} {name}": v for n, each in state["optimiser"]["state"].items() for name, v in each.items()}
    return {"points": points, "step": state["step"]} | {n: (v.dtype, v.tolist()) for n, v in tensors.items()}


def contents(folder: Path) -> tuple[Json, dict[str, list]]:
    """The state and the best model of a run."""
    state = checkpoint.load_last(folder)
    assert state is not None
    return values(state), {name: value.tolist() for name, value in checkpoint.read_best(folder)[2].items()}


@pytest.mark.parametrize("method", ["simcse", "esimcse", "ct", "whitening"])
def test_what_is_written_behind_is_what_is_waited_for(
    method: str, tiny_settings: Callable[..., dict], text_file: Path, tmp_path: Path, writes: list[str]
) -> None:
    """20 evaluations: a state at the first, one at the end, and the best model of each."""
    run, paths = parse_run(tiny_settings(method)), DataPaths(train_file=text_file)
    train(run, paths, tmp_path / "waited", lambda point: False, save_minutes=0)
    waited = Counter(writes)
    writes.clear()
    train(run, paths, tmp_path / "behind", lambda point: False)
    assert contents(tmp_path / "behind") == contents(tmp_path / "waited")
    assert waited["state.pt by MainThread"] == 20 and set(waited) <= {
        "state.pt by MainThread",
        "next.safetensors by MainThread",
    }
    now = Counter(writes)
    assert now["state.pt by saver"] == 2 and now["next.safetensors by saver"] in (1, 2) and len(now) == 2
    assert sorted(os.listdir(tmp_path / "behind" / "best")) == ["model.safetensors"]
    assert "saver" not in [thread.name for thread in threading.enumerate()]


def test_a_state_that_is_written_late_is_that_of_its_evaluation(
    tiny_settings: Callable[..., dict], text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk takes as long as the rest of the run: weights, moments and points go on, and are not what is written."""
    run, paths = parse_run(tiny_settings("esimcse", train_evaluations=4)), DataPaths(train_file=text_file)
    train(run, paths, tmp_path / "waited", lambda point: point.step == 5, save_minutes=0)
    over, written, save = threading.Event(), list[Json](), checkpoint.save_last

    def late(folder: Path, state: Json) -> None:
        assert over.wait(60)
        written.append(values(state))
        save(folder, state)

    monkeypatch.setattr(checkpoint, "save_last", late)
    train(run, paths, tmp_path / "behind", lambda point: bool(point.step == 20 and over.set()))
    assert written[0] == contents(tmp_path / "waited")[0]
    assert [each["step"] for each in written] == [5, 20]


def test_a_copy_that_a_newer_one_replaces_is_freed_at_once() -> None:
    """Without a look for circles, which comes seldom where nothing but tensors is made: a copy is a gigabyte."""
    gc.disable()
    try:
        (copied,), _ = async_checkpoints._copy({"model": {"weight": torch.ones(3)}, "moments": [torch.ones(2)]})
        copies = [weakref.ref(copied["model"]["weight"]), weakref.ref(copied["moments"][0])]
        del copied
        assert [copy() for copy in copies] == [None, None]
    finally:
        gc.enable()


def test_a_copy_has_what_shares_memory_once_and_the_versions_of_modules() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 2))
    model[2].weight = model[0].weight
    (copied,), _ = async_checkpoints._copy(model.state_dict())
    assert list(copied) == list(model.state_dict()) and copied._metadata == model.state_dict()._metadata
    assert copied["0.weight"] is copied["2.weight"] is not model[0].weight
    assert all(torch.equal(copied[name], value) for name, value in model.state_dict().items())


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interrupt_saves_the_last_evaluation_first(
    error: type[BaseException],
    tiny_settings: Callable[..., dict],
    text_file: Path,
    tmp_path: Path,
    updates: list[int],
    writes: list[str],
) -> None:
    run, paths = parse_run(tiny_settings("esimcse", train_evaluations=4)), DataPaths(train_file=text_file)

    def interrupt(point: Point) -> bool:
        if point.step == 15:
            raise error
        return False

    with pytest.raises(error):
        train(run, paths, tmp_path / "stopped", interrupt)
    assert Counter(writes)["state.pt by MainThread"] == 1
    train(run, paths, tmp_path / "stopped", lambda point: False)
    assert updates == list(range(20)), "the second attempt begins at update 15"
    train(run, paths, tmp_path / "whole", lambda point: False)
    assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")


def test_a_disk_that_fills_fails_the_run_at_its_next_evaluation_with_the_systems_error(
    tiny_settings: Callable[..., dict], text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state of before stays, and the run goes on from it; what comes after the error is not written any more."""
    run, paths = parse_run(tiny_settings("simcse", train_evaluations=4)), DataPaths(train_file=text_file)
    save, seen, idle = checkpoint.save_last, list[int](), threading.active_count()

    def full(folder: Path, state: Json) -> None:
        if state["step"] == 10:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
        save(folder, state)

    def report(point: Point) -> bool:
        seen.append(point.step)
        while threading.active_count() > idle:  # the disk is faster than the next five steps
            time.sleep(0.01)
        return False

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "save_last", full)
        with pytest.raises(OSError, match="No space left on device: '/.*/full'$"):
            train(run, paths, tmp_path / "full", report, save_minutes=1e-9)
    assert seen == [5, 10], "it is raised when 15 is handed over"
    state = checkpoint.load_last(tmp_path / "full")
    assert state is not None and state["step"] == 5
    train(run, paths, tmp_path / "full", lambda point: False)
    train(run, paths, tmp_path / "whole", lambda point: False)
    assert contents(tmp_path / "full") == contents(tmp_path / "whole")


@pytest.mark.parametrize("kills", [2, pytest.param(100, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])])
def test_kills_at_random_times_lose_no_more_than_a_save_s_time_and_damage_nothing(
    kills: int, tiny_settings: Callable[..., dict], text_file: Path, tmp_path: Path
) -> None:
    """Each run goes on after each kill, and ends as the undisturbed one, bit for bit."""
    settings = tiny_settings("esimcse", train_examples=480, train_evaluations=30)
    command = [sys.executable, str(KILLED), json.dumps(settings), str(text_file), str(tmp_path), str(kills)]
    done = subprocess.run(command, timeout=1700, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert len(found["kills"]) == kills and found["ended"] and all(found["ended"])
    assert [kill for kill in found["kills"] if kill["damaged"]] == []
    late = [kill for kill in found["kills"] if kill["lost_s"] > found["save_s"] + kill["gap_s"] + WRITE_S]
    assert late == []


def writer(written: list[str], name: str, go_on: threading.Event | None = None) -> Callable[[], None]:
    """Notes a name when it ends; waits for `go_on` before that."""

    def write() -> None:
        assert go_on is None or go_on.wait(10)
        written.append(f"{name} in {threading.current_thread().name}")

    return write


def written_by(saver: Saver) -> bool:
    until = time.monotonic() + 10
    while not saver.wait(0.1):
        assert time.monotonic() < until
    return True


def test_the_caller_goes_on_while_a_thread_writes_and_of_what_waits_the_newest_is_written() -> None:
    written, go_on = list[str](), threading.Event()
    with Saver(5) as behind:
        assert behind.is_due, "the first is written at once: a bad disk is told early"
        behind.hand_over(writer(written, "first", go_on), now=True)
        assert not written and not behind.is_due and not behind.wait(0.01)
        for name in ("second", "third"):
            behind.hand_over(writer(written, name), now=behind.is_due)
        go_on.set()
        assert written_by(behind)
    assert written == ["first in saver", "third in saver"]
    assert "saver" not in [thread.name for thread in threading.enumerate()]


def test_the_next_is_due_after_so_many_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(saver.time, "monotonic", lambda: now)
    behind = Saver(5)
    behind.hand_over(lambda: None, now=True)
    behind.flush()
    behind._thread.join()
    now += 299.0
    assert not behind.is_due
    now += 1.0
    assert behind.is_due


def test_with_0_minutes_the_caller_writes_itself() -> None:
    written: list[str] = []
    with Saver(0) as behind:
        for name in ("first", "second"):
            assert behind.is_due
            behind.hand_over(writer(written, name), now=True)
    assert written == ["first in MainThread", "second in MainThread"]


def fill() -> None:
    """A write on a full disk."""
    raise OSError(28, "No space left on device", "/runs/last")


@pytest.mark.parametrize("call", ["hand_over", "wait"])
def test_an_error_of_the_thread_is_raised_at_the_next_call_as_it_was(call: str) -> None:
    """A disk that failed is not tried again on the way out."""
    written: list[str] = []

    def train() -> None:
        with Saver(5) as behind:
            behind.hand_over(fill, now=True)
            behind._thread.join()
            if call == "hand_over":
                behind.hand_over(writer(written, "next"), now=True)
            behind._newest.append(writer(written, "next"))
            behind.wait(1)

    with pytest.raises(OSError, match="No space left on device: '/runs/last'"):
        train()
    assert not written


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_what_waits_is_written_before_an_interrupt_or_an_error_goes_on(error: type[BaseException]) -> None:
    written: list[str] = []

    def train() -> None:
        with Saver(5) as behind:
            behind.hand_over(writer(written, "old"), now=True)
            behind.hand_over(writer(written, "new"), now=False)
            raise error

    with pytest.raises(error):
        train()
    assert written[-1] == "new in MainThread" and written[:-1] in ([], ["old in saver"])


def test_an_error_is_not_hidden_by_one_of_the_last_write(caplog: pytest.LogCaptureFixture) -> None:
    def train() -> None:
        with Saver(5) as behind:
            behind.hand_over(fill, now=False)
            raise RuntimeError("the run's own")

    with pytest.raises(RuntimeError, match="the run's own"):
        train()
    assert caplog.messages == ["not saved: [Errno 28] No space left on device: '/runs/last'"]


def test_another_thread_may_ask_to_save_what_waits_of_every_run_that_trains() -> None:
    written: list[str] = []
    with Saver(5) as one, Saver(5) as other:
        one.hand_over(writer(written, "one"), now=False)
        other.hand_over(writer(written, "other"), now=False)
        asker = threading.Thread(target=saver.save_open, name="asker")
        asker.start()
        asker.join()
        assert sorted(written) == ["one in asker", "other in asker"]
        assert one.wait(0) and other.wait(0)
    one.hand_over(writer(written, "late"), now=False)
    saver.save_open()
    assert len(written) == 2, "a run that has ended is none of them"
