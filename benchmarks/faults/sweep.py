"""The sweep that is hurt: four short runs that a search proposes, as `cse run` in a process of its own."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from analysis.ledger import Ledger, RunRow
from benchmarks.faults.moment import Moment

REPO = Path(__file__).resolve().parents[2]
RUNS, EVALUATIONS = 4, 4
START_S, END_S = 400, 900
"""Longest waits for a sweep's first points and for its end; a shared machine starts Ray slowly."""
SPACE = f"""version: 1
id: faults
method: simcse
seeds: 1
set:
  train.encoder: wiki-l2-h128
  train.corpus: generated
  train.dev: "generated_dev:40"
  train.examples: 1600
  train.batch_size: 8
  train.evaluations: {EVALUATIONS}
space:
  method.temperature: {{grid: [0.05, 0.1]}}
  train.learning_rate: {{grid: [3.0e-5, 1.0e-4]}}
search: {{sampler: tpe, num_samples: {RUNS}}}
"""


@dataclass
class Sweep:
    """One sweep in `folder`; every start is the same command."""

    folder: Path
    slots: int = 2
    options: tuple[str, ...] = ()
    started: list["subprocess.Popen[str]"] = field(default_factory=list)
    seen: dict[int, psutil.Process] = field(default_factory=dict)
    """Every process that was found below a driver, to be ended with the trial."""

    def start(self) -> "subprocess.Popen[str]":
        """Give the command; stdout and stderr go to `driver-N.log`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "faults.yaml").write_text(SPACE, encoding="utf8")
        code = "import sys; from cluster.cli import main; sys.exit(main())"
        argv = [sys.executable, "-c", code, "run", "faults.yaml", "--max-concurrent", str(self.slots), *self.options]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(REPO)}
        with self.log(len(self.started)).open("w") as log:
            made = subprocess.Popen(argv, cwd=self.folder, env=environment, stdout=log, stderr=log, text=True)
        self.started.append(made)
        return made

    def log(self, number: int) -> Path:
        return self.folder / f"driver-{number}.log"

    def said(self) -> str:
        """What the newest driver printed."""
        return self.log(len(self.started) - 1).read_text()

    def ledger(self) -> Ledger:
        return Ledger.open(self.folder / "results" / "ledger.db", create=False)

    def rows(self) -> list[RunRow]:
        """The runs so far; none before there is a ledger."""
        return self._read(lambda ledger: ledger.runs(), [])

    def curves(self) -> dict[str, list[dict[str, Any]]]:
        return self._read(lambda ledger: ledger.curves([row.signature for row in ledger.runs()]), {})

    def _read(self, question: Callable[[Ledger], Any], nothing: Any) -> Any:
        if not (self.folder / "results" / "ledger.db").exists():
            return nothing
        ledger = self.ledger()
        try:
            return question(ledger)
        finally:
            ledger.close()

    def wait(self, moment: Moment, driver: "subprocess.Popen[str]") -> None:
        """Until the moment has come; AssertionError when the driver ended before."""
        until(lambda: driver.poll() is not None or points(self.curves()) >= moment.points, START_S)
        time.sleep(moment.delay_s)
        assert driver.poll() is None, f"the sweep ended before the moment: {self.said()[-500:]}"
        self.look()

    def look(self) -> None:
        """Note what runs below the drivers now."""
        for driver in self.started:
            if driver.poll() is None:
                for child in psutil.Process(driver.pid).children(recursive=True):
                    self.seen[child.pid] = child

    def ranks(self) -> list[psutil.Process]:
        """The processes in which training happens."""
        self.look()
        return [child for child in self.seen.values() if child.is_running() and "TrainWorker" in title(child)]

    def end(self) -> None:
        """Leave no process behind."""
        self.look()
        for driver in self.started:
            if driver.poll() is None:
                driver.kill()
            driver.wait(30)
        for child in self.seen.values():
            if child.is_running():
                child.kill()
        psutil.wait_procs(list(self.seen.values()), 30)


def title(process: psutil.Process) -> str:
    """A process's command line; empty when it is gone."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def points(curves: Mapping[str, list[dict[str, Any]]]) -> int:
    """Dev points in all."""
    return sum(len(curve) for curve in curves.values())


def until(condition: Callable[[], object], seconds: float) -> None:
    """Wait for a condition; AssertionError after so many seconds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.2)
