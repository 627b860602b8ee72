"""A Ray cluster over two hosts with one token, and a sweep whose DDP groups span both."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster_real.hosts import Hosts
from tests.cluster_real.processes import Processes, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
HERE = Path(__file__).resolve().parent
PORT = 6379


@pytest.fixture
def hosts(needs: Callable[..., None], processes: Processes) -> Iterator[Hosts]:
    needs("iproute2", "ip", root=True)
    needs("util-linux", "unshare")
    made = Hosts(processes)
    try:
        made.create()
        yield made
    finally:
        processes.end()
        made.remove()


def start_node(hosts: Hosts, index: int, *where: str) -> None:
    name, address = hosts.names[index], hosts.addresses[index]
    temporary = str(hosts.processes.folder / name)
    size = ("--num-cpus", "1", "--resources", json.dumps({"trial_slot": 8}), "--object-store-memory", str(128 * 2**20))
    node = ("ray", "start", *where, "--node-ip-address", address, "--temp-dir", temporary, *size)
    own = {"PYTHONPATH": f"{hosts.processes.environment['PYTHONPATH']}:{HERE}"}
    argv = hosts.inside(name, *node, "--disable-usage-stats", "--block")
    hosts.processes.start(*argv, log=f"{name}.log", env=own)


def test_a_group_of_two_ranks_spans_two_hosts(hosts: Hosts) -> None:
    processes, address = hosts.processes, f"{hosts.addresses[0]}:{PORT}"
    start_node(hosts, 0, "--head", "--port", str(PORT))
    first = f"{hosts.names[0]}.log"
    wait_until(lambda: "runtime started" in processes.said(first), 90, f"head: {processes.said(first)}")
    start_node(hosts, 1, "--address", address)
    second = f"{hosts.names[1]}.log"
    wait_until(lambda: "runtime started" in processes.said(second), 90, f"node: {processes.said(second)}")

    driver = (sys.executable, str(HERE / "two_hosts_driver.py"), address, str(processes.folder))
    swept = processes.run(*hosts.inside(hosts.names[0], *driver), timeout=420)
    assert swept.returncode == 0, swept.stdout + swept.stderr
    assert "2 done, 0 failed" in swept.stdout
    runs = list((processes.folder / "results" / "runs").glob("*/final*/hosts"))
    assert len(runs) == 2
    for notes in runs:
        assert {path.name: path.read_text() for path in notes.iterdir()}.keys() == {"rank0", "rank1"}
        assert {path.read_text() for path in notes.iterdir()} == set(hosts.names)
