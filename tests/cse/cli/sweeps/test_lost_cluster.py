"""The only node of a sweep's own cluster is killed: the sweep ends, says why, and the same command finishes it."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cse.cli.sweeps.test_interrupt import started, states
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_a_sweep_without_a_node_ends_and_the_same_command_finishes_it(tmp_path: Path) -> None:
    first = started(tmp_path, 4000)
    wait_for(lambda: "done" in states(tmp_path) or first.poll() is not None)
    raylet = subprocess.check_output(["pgrep", "-x", "-P", str(first.pid), "raylet"], text=True)
    os.kill(int(raylet), signal.SIGKILL)
    out, err = first.communicate(timeout=300)
    assert first.returncode == 1, out + err
    assert "cse: cluster lost" in err and "the same command continues" in err and "Traceback" not in err
    done = states(tmp_path).count("done")
    assert done and not {"running", "claimed"} & set(states(tmp_path))

    second = started(tmp_path, 4000)
    out, err = second.communicate(timeout=300)
    assert second.returncode == 0, out + err
    assert f"{4 - done} done" in out and f"{done} reused" in out
