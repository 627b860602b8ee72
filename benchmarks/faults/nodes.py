"""Rows of a cluster of two hosts (network namespaces), one CPU each; the driver is on the first."""

import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.faults.sweep import END_S, Sweep, until
from tests.cluster_real.hosts import INTERFACE, Hosts

CUT_S = 60.0
SERVED_S = 3.0
"""Longest pause between the start of a rank on a node and the end of that node."""


class TwoNodes(Sweep):
    """Sweep on a cluster of two nodes, each made by `ray start`."""

    slots = 2

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.hosts = Hosts(self.processes, Path(tempfile.mkdtemp(prefix="cse-", dir="/tmp")))

    def create(self) -> None:
        self.hosts.create()
        self.options = ("--address", self.hosts.cluster)
        self.hosts.start_head()
        self.hosts.join()

    def inside(self, *argv: str) -> tuple[str, ...]:
        return self.hosts.inside(self.hosts.names[0], *argv)

    def until_it_serves(self) -> None:
        """Wait for a rank on the second node, which joins again where it is gone."""
        if self.hosts.nodes[-1].poll() is not None:
            self.hosts.join()
        ended = self.driver.poll
        until(lambda: ended() is not None or self.hosts.trains(), END_S)
        assert ended() is None, "the sweep ended before the second node had a rank"

    def end(self) -> None:
        super().end()
        self.hosts.remove()
        shutil.rmtree(self.hosts.temporary, ignore_errors=True)


class NodeKilled(TwoNodes):
    """Kill -9 of all that runs on the second node; the sweep goes on with the first alone until the next fault."""

    def hurt(self, rng: np.random.Generator) -> list[str]:
        self.until_it_serves()
        time.sleep(rng.uniform(0, SERVED_S))
        self.hosts.kill()
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
