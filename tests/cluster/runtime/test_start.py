"""A Ray that does not come up, and what its start leaves as it was."""

import signal
from pathlib import Path
from typing import Any

import pytest

from cluster.runtime.start import ray_cluster
from cse.cli import exit


@pytest.mark.usefixtures("without_ray")
def test_a_ray_that_does_not_come_up_is_tried_twice_and_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tried, user, storage = [], tmp_path / "user", tmp_path / "results" / "deep"
    (user / "analysis").mkdir(parents=True)
    monkeypatch.chdir(user)

    def times_out(**settings: Any) -> None:
        tried.append((settings["address"], Path.cwd()))
        raise Exception("The current node timed out during startup.\nmore of it")

    def command() -> None:
        with ray_cluster(storage):
            pytest.fail("there is no cluster")

    monkeypatch.setattr("ray.init", times_out)
    assert exit.run_to_end(command) == exit.SOME_FAILED
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("cse: Ray did not start: load ")
    assert "The current node timed out during startup); " in line and "same command again" in line
    assert tried == [("local", storage)] * 2, "away from a folder that may hide our packages"
    assert Path.cwd() == user


@pytest.mark.usefixtures("without_ray")
@pytest.mark.parametrize("ours", [lambda number, frame: None, signal.SIG_DFL])
def test_a_sigterm_while_ray_starts_is_for_our_handler_where_there_is_one(
    ours: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    def rays(number: int, frame: Any) -> None:
        """Ends the process at once."""

    monkeypatch.setattr("ray.init", lambda **settings: ray._private.utils.set_sigterm_handler(rays))
    before = signal.signal(signal.SIGTERM, ours)
    try:
        with ray_cluster(tmp_path):
            assert signal.getsignal(signal.SIGTERM) is (rays if ours == signal.SIG_DFL else ours)
        signal.signal(signal.SIGTERM, ours)
        ray._private.utils.set_sigterm_handler(rays)
        assert signal.getsignal(signal.SIGTERM) is rays, "Ray's own way is back"
    finally:
        signal.signal(signal.SIGTERM, before)
