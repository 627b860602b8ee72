"""What trackers are sent of a sweep, and that none of them holds it up, whatever it does."""

import logging
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cluster.sweep.events import SweepEvent
from cse.cli.app import main
from cse.trackers import tools as trackers
from cse.trackers import tracking
from cse.trackers.tools import TrackedRun
from cse_train.fields import ConfigError
from tests.cse.trackers.conftest import Hanging, Kept, Raising
from tests.waiting import wait_for

A, B, C = (letter * 24 for letter in "abc")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("PERIOD", 0.02), ("RETRY", 0.1), ("CLOSE", 1.0)):
        monkeypatch.setattr(tracking, f"TRACKER_{name}_SECONDS", seconds)


def test_every_run_has_settings_curve_scores_and_its_end(tracked: Any) -> None:
    kept = Kept()
    with tracked.under({"kept": kept}):
        tracked.whole()
    assert kept.closed
    last = {signature: kept.of(signature)[-1] for signature in (A, B, C)}
    assert {run.state for run in kept.runs} >= {"done", "stopped", "failed"}
    assert [last[name].state for name in (A, B, C)] == ["done", "stopped", "failed"]
    assert last[A].settings == {"method": "esimcse", **tracked.config}
    assert (last[A].sweep, last[A].name) == ("E7", "learning_rate=3e-05 seed 0")
    points = [point for run in kept.of(A) for point in run.points]
    assert points == [(100, {"sts_dev": 60.0, "loss": 0.1}), (200, {"sts_dev": 62.5, "loss": 0.05})]
    assert last[A].results == {"best": 62.5, "score/sts_test": 71.5}
    assert last[A].notes == {"state": "done", "reason": "worker lost", "retries": "1", "signature": A}
    assert [run.ended for run in kept.of(A)].count(True) == 1
    assert last[C].notes["reason"] == "NaN loss" and last[C].results == {}


def test_reused_runs_and_those_of_before_are_not_sent(tracked: Any) -> None:
    tracked.begin(A)
    tracked.end(A, "done", 50.0)
    kept = Kept()
    with tracked.under({"kept": kept}):
        tracked.tell("reused", A, state="done")
        tracked.tell("scored", A, state="done", best=1.0)
    assert kept.runs == [] and kept.closed


def test_a_run_that_the_sweep_leaves_is_lost_at_its_end(tracked: Any) -> None:
    kept = Kept()
    with tracked.under({"kept": kept}):
        tracked.begin(A)
        tracked.ledger.release("me")
    assert kept.of(A)[-1].state == "lost"


def test_a_tracker_that_raises_costs_one_line_and_gets_later_what_it_lacks(
    tracked: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Recovering(Kept):
        def send(self, run: TrackedRun) -> None:
            self.runs.append(run)
            if len(self.runs) < 4:
                raise OSError("no route to host")

    raising, kept, recovering = Raising(), Kept(), Recovering()
    with tracked.under({"raising": raising, "kept": kept, "recovering": recovering}):
        tracked.begin(A)
        tracked.point(A, 100, 60.0)
        wait_for(lambda: len(recovering.runs) >= 4, 5)
        tracked.end(A, "done", 62.0)
    lines = [record.getMessage() for record in caplog.records]
    assert sorted(lines) == [
        f"tracker behind: track={name}; no route to host; the sweep goes on, and the ledger has everything"
        for name in ("raising", "recovering")
    ]
    assert kept.of(A)[-1].state == recovering.of(A)[-1].state == "done"
    whole = [run for run in recovering.runs if run.whole]
    assert len(whole) == 4 and whole[-1].points  # nothing was lost with what failed


def test_a_tracker_that_hangs_delays_nothing_but_the_end_and_costs_one_line(
    tracked: Any, caplog: pytest.LogCaptureFixture
) -> None:
    hanging, kept = Hanging(), Kept()
    begun = time.monotonic()
    with tracked.under({"hanging": hanging, "kept": kept}):
        for number in range(50):
            signature = f"{number:024d}"
            tracked.begin(signature)
            tracked.point(signature, 100, 60.0)
            tracked.end(signature, "done", 62.0)
        wait_for(lambda: len([run for run in kept.runs if run.ended]) == 50, 20)
        assert len(hanging.runs) == 1
    assert time.monotonic() - begun < 25
    assert [record.getMessage() for record in caplog.records] == [
        "tracker behind: track=hanging; it did not take all runs in time; the sweep goes on, and the ledger has "
        "everything"
    ]
    hanging.free.set()


def test_a_tracker_that_long_hangs_is_not_waited_for(tracked: Any) -> None:
    hanging = Hanging()
    with tracked.under({"hanging": hanging}):
        tracked.begin(A)
        assert hanging.begun.wait(30)
        time.sleep(1.1)
        begun = time.monotonic()
    assert time.monotonic() - begun < 0.5
    hanging.free.set()


def test_without_a_ledger_one_line_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with tracking.Tracking(str(tmp_path / "absent.db"), {}, {}, {"kept": Kept()}) as listener:
        listener(SweepEvent(kind="started", signature=A))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING and "track=kept; ledger file: " in record.getMessage()


def test_the_folder_is_the_registry() -> None:
    assert trackers.names() == ["mlflow", "tensorboard", "trackio", "wandb"]
    assert trackers.check_trackers(["wandb, mlflow", "wandb", ""]) == ("wandb", "mlflow")


def test_an_unknown_tracker_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "demo", "--track", "mlfow,tensorboard"]) == 2
    assert capsys.readouterr().err == "cse: unknown tracker: track=mlfow; did you mean mlflow?\n"


def test_a_tracker_without_its_package_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.delitem(sys.modules, "cse.trackers.tools.wandb", raising=False)
    assert main(["run", "demo", "--track", "wandb", "--storage", str(tmp_path)]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("cse: tracker without its package: track=wandb; ")
    assert said.err.endswith("; pip install 'cse-search[wandb]'\n") and said.err.count("\n") == 1
    assert said.out == ""


def test_two_trackers_without_packages_are_two_lines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("mlflow", "trackio"):
        monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.delitem(sys.modules, f"cse.trackers.tools.{name}", raising=False)
    with pytest.raises(ConfigError) as error:
        trackers.make_trackers(["mlflow", "trackio"], tmp_path)
    assert len(error.value.problems) == 2
