"""A tracker is one module: added to a copy of the project, `cse run --track` offers it and sends it runs."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

MODULE = '''
"""A line for each piece of news."""


class Tracker:
    def __init__(self, storage):
        self.file = storage / "lines.txt"

    def send(self, run):
        with self.file.open("a") as file:
            print(run.name, file=file)

    def close(self):
        with self.file.open("a") as file:
            print("closed", file=file)
'''
MADE = """
from pathlib import Path
from cse.experiments import tracking

assert tracking.check_trackers(["lines"], Path.cwd()) == ("lines",)
with tracking.track_sweep("l.db", {}, {}, ["lines"], Path.cwd()):
    pass
"""


def test_the_folder_is_the_registry(project_copy: Callable[..., Path], called: Callable[..., str]) -> None:
    copy = project_copy("cse")
    (copy / "cse" / "trackers" / "tools" / "lines.py").write_text(MODULE, encoding="utf8")
    assert "lines" in called(copy, "run", "--help")
    subprocess.run([sys.executable, "-c", MADE], cwd=copy, env=os.environ | {"PYTHONPATH": str(copy)}, check=True)
    assert (copy / "lines.txt").read_text() == "closed\n"
