"""`cse train`, asked to end, saves its last dev evaluation first; the same command goes on from there."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cse_train import checkpoint

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
SETTINGS = ("encoder=words-l1-h64", "corpus=generated", "dev=generated_dev:40", "batch_size=8", "evaluations=1000")
COMMAND = "import sys; from cse.cli.app import main; sys.exit(main())"


@pytest.mark.parametrize("name", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_the_last_point_that_was_told(name: signal.Signals, tmp_path: Path) -> None:
    settings = [part for setting in SETTINGS for part in ("--set", f"train.{setting}")]
    argv = [sys.executable, "-c", COMMAND, "train", "simcse", *settings, "--set", "train.examples=16000", "--to", "run"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(argv, cwd=tmp_path, env=environment, **pipes) as process:
        told = [line for line, _ in zip(iter(process.stdout.readline, ""), range(9), strict=False)]
        process.send_signal(name)
        rest, err = process.communicate(timeout=120)
    assert process.returncode == 130 and "Traceback" not in err, err
    points = [int(found[1]) for line in (*told, *rest.splitlines()) if (found := re.match(r" *(\d+)/16000 ", line))]
    state = checkpoint.load_last(tmp_path / "run")
    assert len(points) > 5 and state is not None
    assert state["points"][-1]["examples"] in (points[-1], points[-1] + 16), "one may be evaluated and not told"
