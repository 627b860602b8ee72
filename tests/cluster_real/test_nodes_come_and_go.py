"""Nodes that join a running sweep, and a cluster that loses every node that trains."""

import os
import re
import time

import pytest

from tests.cluster_real.hosts import Hosts
from tests.cluster_real.processes import wait_until

GONE_S = float(os.environ.get("CSE_TEST_NODES_GONE_S", "60"))
"""How long no node trains: 600 takes the whole test to a quarter of an hour."""
USED_S = 30.0
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900 + GONE_S)]


def sweep(hosts: Hosts, seeds: int, examples: int) -> None:
    """Start a sweep on the first host; what it says goes to sweep.log. 1,280 examples take two seconds."""
    longer = ("--set", f"train.examples={examples}", "--seeds", str(seeds))
    where = ("--address", hosts.cluster, "--ledger", "ledger.db", "--storage", str(hosts.processes.folder / "stored"))
    argv = hosts.inside(hosts.names[0], "cse", "run", "tiny.yaml", "--yes", *longer, *where)
    hosts.processes.start(*argv, log="sweep.log")


def said(hosts: Hosts) -> str:
    return hosts.processes.said("sweep.log")


def end(hosts: Hosts, seeds: int) -> None:
    """The sweep ends with every run done at its first try."""
    wait_until(lambda: re.search(r"\d+ done, \d+ failed", said(hosts)), 600, "the end of the sweep")
    assert f"{seeds} done, 0 failed" in said(hosts), said(hosts)
    assert "Traceback" not in said(hosts)


def test_a_node_that_joins_is_used_within_half_a_minute(hosts: Hosts) -> None:
    hosts.start_head()
    sweep(hosts, 8, 12800)
    wait_until(lambda: re.search("^done ", said(hosts), re.MULTILINE), 180, f"the first run: {said(hosts)}")
    hosts.join()
    began = time.monotonic()
    wait_until(hosts.trains, 3 * USED_S, "a rank on the node that joined")
    used = time.monotonic() - began
    print(f"used {used:.0f} s after it joined")
    assert used <= USED_S, said(hosts)
    end(hosts, 8)
    assert "cluster  2 x 1 workers" in said(hosts), "the sweep says that it grew"


def test_a_sweep_outlasts_its_only_node_and_starts_without_one(hosts: Hosts) -> None:
    hosts.start_head(cpus=0)
    sweep(hosts, 6, 1280)
    wait_until(lambda: "no node trains yet" in said(hosts), 120, f"a word that it waits: {said(hosts)}")
    hosts.join()
    wait_until(lambda: re.search("^done ", said(hosts), re.MULTILINE), 180, f"the first run: {said(hosts)}")
    hosts.kill()
    back = time.monotonic() + GONE_S
    wait_until(lambda: re.search(r"^waiting .*\d CPU", said(hosts), re.MULTILINE), 180, "a word of what it waits for")
    time.sleep(max(0.0, back - time.monotonic()))
    hosts.join()
    end(hosts, 6)
