"""Where the side of trackers has been taken off, `--track` is a mistake in one line, and a sweep runs without it."""

from pathlib import Path

import pytest

from cluster.sweep.events import EventKind, SweepEvent
from cse.cli.app import main
from cse.experiments import tracking


@pytest.fixture(autouse=True)
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracking, "SIDE", "cse.no_such_side")


def test_a_tracker_that_is_not_installed_is_one_line(somewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "E7", "--track", "wandb"]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line == "cse: unknown tracker: track=wandb; this installation has none, leave --track out"


def test_a_sweep_without_trackers_has_a_listener_that_does_nothing(tmp_path: Path) -> None:
    assert tracking.names() == [] and tracking.check_trackers((), tmp_path) == ()
    with tracking.track_sweep("l.db", {}, {}, (), tmp_path) as tell:
        tell(SweepEvent(kind=EventKind.LEDGER, reason="news"))
    assert list(tmp_path.iterdir()) == []
