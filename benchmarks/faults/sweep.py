"""The sweep that is hurt: short runs that a search proposes, as `cse run` in a process of its own."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from analysis.ledger import CurvePoint, Ledger, RunRow
from benchmarks.faults.moment import Moment
from cluster.search.optuna_studies import mirror_url
from tests.cluster_real.processes import Processes, below, title

RUNS, EVALUATIONS = 8, 4
START_S, END_S = 400, 900
"""Longest waits for a sweep's first points and for its end; a shared machine starts Ray slowly."""
SPACE = f"""version: 1
id: faults
method: simcse
seeds: 1
set:
  train.encoder: words-l2-h128
  train.corpus: generated
  train.dev: "generated_dev:40"
  train.examples: 1920
  train.batch_size: 8
  train.evaluations: {EVALUATIONS}
space:
  method.temperature: {{grid: [0.05, 0.1]}}
  train.learning_rate: {{grid: [1.0e-5, 3.0e-5, 1.0e-4, 3.0e-4]}}
search: {{sampler: tpe, num_samples: {RUNS}}}
"""
CSE = (sys.executable, "-m", "cse")


class Sweep:
    """One sweep in `folder`; every start is the same command. A row of faults is a subclass with its own `hurt`."""

    slots = 1

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "faults.yaml").write_text(SPACE, encoding="utf8")
        self.folder, self.storage = folder, folder / "results"
        self.url = str(self.storage / "ledger.db")
        self.processes = Processes(folder)
        self.options: tuple[str, ...] = ()
        self.started: list[subprocess.Popen[bytes]] = []

    def create(self) -> None:
        """Make what the sweep stands on: nothing."""

    def inside(self, *argv: str) -> tuple[str, ...]:
        """The command line that runs `argv` where the driver lives."""
        return argv

    def hurt(self, rng: np.random.Generator) -> list[str]:
        """Strike, and give the command again where the fault ends it; what was wrong there and then."""
        raise NotImplementedError

    def start(self) -> subprocess.Popen[bytes]:
        """Give the command; stdout and stderr go to `driver-N.log`."""
        where = ("--ledger", self.url, "--storage", str(self.storage), "--max-concurrent", str(self.slots))
        argv = self.inside(*CSE, "run", "faults.yaml", "--save-minutes", "0", *where, *self.options)
        cache = os.environ.get("CSE_CACHE") or str(self.folder.parent / "cache")
        made = self.processes.start(*argv, log=f"driver-{len(self.started)}.log", env={"CSE_CACHE": cache})
        self.started.append(made)
        return made

    @property
    def driver(self) -> subprocess.Popen[bytes]:
        """The newest one."""
        return self.started[-1]

    def said(self) -> str:
        """Output of the newest driver."""
        return self.processes.said(f"driver-{len(self.started) - 1}.log")

    def ledger(self) -> Ledger:
        return Ledger.open(self.url, create=False)

    def rows(self) -> list[RunRow]:
        """The runs so far; none before there is a ledger."""
        return self._read(lambda ledger: ledger.runs(), [])

    def curves(self) -> dict[str, list[CurvePoint]]:
        return self._read(lambda ledger: ledger.curves([row.signature for row in ledger.runs()]), {})

    def _read(self, question: Callable[[Ledger], Any], nothing: Any) -> Any:
        if "://" not in self.url and not Path(self.url).exists():
            return nothing
        try:
            ledger = self.ledger()
        except ValueError:  # the driver is making it
            return nothing
        try:
            return question(ledger)
        finally:
            ledger.close()

    def study(self) -> str:
        """Address of the search's Optuna study, as Optuna takes it."""
        return mirror_url(self.url)

    def wait(self, moment: Moment) -> None:
        """Until the moment has come and the newest driver has a run in hand; AssertionError when it ended before."""
        until(lambda: self.driver.poll() is not None or self._reached(moment), START_S)
        time.sleep(moment.delay_s)
        assert self.driver.poll() is None, f"the sweep ended before the moment: {self.said()[-500:]}"

    def _reached(self, moment: Moment) -> bool:
        mine = f":{self.driver.pid}:"
        return points(self.curves()) >= moment.points and any(row.live and mine in row.owner for row in self.rows())

    def ranks(self) -> list[psutil.Process]:
        """The processes of the newest driver's own cluster in which training happens."""
        return [process for process in below(self.driver.pid) if "TrainWorker" in title(process)]

    def end(self) -> None:
        """Leave no process behind."""
        self.processes.end()
        for driver in self.started:
            driver.wait(30)


def points(curves: Mapping[str, list[CurvePoint]]) -> int:
    """Dev points in all."""
    return sum(len(curve) for curve in curves.values())


def until(condition: Callable[[], object], seconds: float) -> None:
    """Wait for a condition; AssertionError after so many seconds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.3)
