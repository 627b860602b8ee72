"""Rows of a cluster of two hosts (network namespaces), one CPU each; the driver is on the first."""

import contextlib
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import numpy as np
import psutil

from benchmarks.faults.sweep import END_S, Sweep, below, title, until
from tests.cluster_real.hosts import INTERFACE, Hosts

PORT = 6379
CUT_S = 60.0
UP_S = 120.0
SERVED_S = 3.0
"""Longest pause between the start of a rank on a node and the end of that node."""


class TwoNodes(Sweep):
    """A sweep on a cluster that `ray start` made."""

    slots = 2

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.hosts = Hosts(self.processes)
        self.nodes: list[subprocess.Popen[bytes]] = []
        """`ray start --block`, the head first, then every start of the second node."""
        self.temporary: list[Path] = []
        """Where each of them keeps its session."""

    def create(self) -> None:
        self.hosts.create()
        self.options = ("--address", f"{self.hosts.addresses[0]}:{PORT}")
        self.join(0)
        self.join(1)

    def inside(self, *argv: str) -> tuple[str, ...]:
        return self.hosts.inside(self.hosts.names[0], *argv)

    def join(self, index: int) -> None:
        """Start Ray on the first or the second host, and wait until it runs."""
        name, address, log = self.hosts.names[index], self.hosts.addresses[index], f"node-{len(self.nodes)}.log"
        where = ("--address", f"{self.hosts.addresses[0]}:{PORT}") if index else ("--head", "--port", str(PORT))
        self.temporary.append(Path(f"/tmp/cse-fault-{os.getpid()}-{len(self.nodes)}"))
        size = ("--num-cpus", "1", "--resources", json.dumps({"trial_slot": 8}), "--object-store-memory", str(2**27))
        node = ("ray", "start", *where, "--node-ip-address", address, "--temp-dir", str(self.temporary[-1]), *size)
        argv = self.hosts.inside(name, *node, "--disable-usage-stats", "--block")
        self.nodes.append(self.processes.start(*argv, log=log))
        until(lambda: "runtime started" in self.processes.said(log), UP_S)

    def until_it_serves(self) -> None:
        """Wait for a rank on the second node, which joins again where it is gone."""
        if self.nodes[-1].poll() is not None:
            self.join(1)
        second, ended = self.nodes[-1].pid, self.driver.poll
        until(lambda: ended() is not None or any("TrainWorker" in title(process) for process in below(second)), END_S)
        assert ended() is None, "the sweep ended before the second node had a rank"

    def end(self) -> None:
        super().end()
        self.hosts.remove()
        for folder in self.temporary:
            shutil.rmtree(folder, ignore_errors=True)


class NodeKilled(TwoNodes):
    """Kill -9 of all that runs on the second node; the sweep goes on with the first alone until the next fault."""

    def hurt(self, rng: np.random.Generator) -> list[str]:
        self.until_it_serves()
        time.sleep(rng.uniform(0, SERVED_S))
        second = self.nodes[-1]
        for process in (*below(second.pid), psutil.Process(second.pid)):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        second.wait()
        return []


class LinkCut(TwoNodes):
    """No packet passes between the hosts for a minute. The rest of the sweep may be over by then: one cut for each."""

    def hurt(self, rng: np.random.Generator) -> list[str]:
        self.until_it_serves()
        self._link("down")
        time.sleep(CUT_S)
        self._link("up")
        if self.driver.poll() is None:
            return []
        said = self.said()
        self.start()
        return [f"no clear reason: {said[-300:]}"] if "Traceback" in said else []

    def _link(self, state: str) -> None:
        subprocess.run(["ip", "-n", self.hosts.names[0], "link", "set", INTERFACE, state], check=True)
