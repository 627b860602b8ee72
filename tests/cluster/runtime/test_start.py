"""A Ray that does not come up."""

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
    assert exit.ended(command) == exit.FAILED
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("cse: Ray did not start: load ")
    assert "The current node timed out during startup); " in line and "same command again" in line
    assert tried == [("local", storage)] * 2, "away from a folder that may hide our packages"
    assert Path.cwd() == user
