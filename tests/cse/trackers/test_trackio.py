"""A sweep in Trackio, in a folder of this machine, read back with its own storage."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trackio", reason="pip install 'cse-search[trackio]'")
A, B, C = (letter * 24 for letter in "abc")
WRITE = """
import sys
from pathlib import Path
from cse.trackers import tools as trackers
from tests.cse.trackers.conftest import TrackedSweep

tracked = TrackedSweep(Path(sys.argv[1]))
with tracked.under(trackers.make_trackers(["trackio"], Path(sys.argv[1]))):
    tracked.whole()
"""
READ = """
import json
from trackio.sqlite_storage import SQLiteStorage

runs = SQLiteStorage.get_runs("E7")
logs, configs = SQLiteStorage.get_logs, SQLiteStorage.get_run_config
print(json.dumps({name: [logs("E7", name), configs("E7", name)] for name in runs}))
"""


def called(folder: Path, program: str) -> str:
    """Trackio takes its folder from the environment at its import: each step is a process of its own."""
    environment = os.environ | {"TRACKIO_DIR": str(folder / "trackio")}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", program, str(folder)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_run_has_configuration_curve_scores_and_state(tmp_path: Path) -> None:
    assert called(tmp_path, WRITE) == ""  # stdout is the table's
    shown: dict[str, Any] = json.loads(called(tmp_path, READ))
    assert sorted(shown) == [f"learning_rate=3e-05 seed 0 {name[:8]}" for name in (A, B, C)]
    states = [[row["state"] for row in logs if "state" in row] for _, (logs, _) in sorted(shown.items())]
    assert states == [["done"], ["stopped"], ["failed"]]
    logs, config = shown[f"learning_rate=3e-05 seed 0 {A[:8]}"]
    assert config["method"] == "esimcse" and config["train.learning_rate"] == 3e-5
    points = [(row["step"], row["sts_dev"], row["loss"]) for row in logs if "sts_dev" in row]
    assert points == [(100, 60.0, 0.1), (200, 62.5, 0.05)]
    assert logs[-1]["best"] == 62.5 and logs[-1]["score/sts_test"] == 71.5
