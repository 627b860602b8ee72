"""What the tests that watch a sweep share: programs of ours beside the test, patience."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.waiting import wait_for

CSE = [sys.executable, "-m", "cse"]
SPACE = """version: 1
id: mine
title: A sweep that the page watches
method: simcse
seeds: 2
set:
  train.encoder: words-l2-h128
  train.corpus: generated
  train.dev: "generated_dev:40"
  train.examples: 6000
  train.batch_size: 8
  train.evaluations: 12
space:
  method.temperature: {grid: [0.05, 0.1]}
"""
"""Four runs, slow enough to be looked at."""


def started(folder: Path, *words: str, **environment: str) -> subprocess.Popen[str]:
    """`cse WORDS` in the folder; what it says goes to a file there that is named like the command."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"} | environment
    with (folder / f"{words[0]}.txt").open("w", encoding="utf8") as said:
        return subprocess.Popen([*CSE, *words], cwd=folder, env=environment, stdout=said, stderr=said, text=True)


def ended(process: subprocess.Popen[str]) -> None:
    """Ended as Ctrl-C does."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(90)
    except subprocess.TimeoutExpired:
        process.kill()


@contextlib.contextmanager
def dashboard(folder: Path) -> Iterator[str]:
    """Address of `cse dashboard` over the ledger of a folder."""
    server, said = started(folder, "dashboard", "--port", "0"), folder / "dashboard.txt"
    try:
        wait_for(lambda: "http://" in said.read_text(encoding="utf8"), 120)
        yield said.read_text(encoding="utf8").partition(" at ")[2].split()[0]
    finally:
        ended(server)


def keep_picture(browser: Any) -> None:
    """Write the file that CSE_PICTURE names, if any; README's pictures stay below 300 KB."""
    target = os.environ.get("CSE_PICTURE")
    if target:
        assert browser.save_screenshot(str(Path(target).resolve()))
        assert Path(target).stat().st_size < 300_000
