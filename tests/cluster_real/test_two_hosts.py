"""A Ray cluster over two hosts with one token, and a sweep whose DDP groups span both."""

import sys

import pytest

from tests.cluster_real.hosts import HERE, Hosts

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


def test_a_group_of_two_ranks_spans_two_hosts(hosts: Hosts) -> None:
    processes = hosts.processes
    hosts.start_head()
    hosts.join()
    driver = (sys.executable, str(HERE / "two_hosts_driver.py"), hosts.cluster, str(processes.folder))
    swept = processes.run(*hosts.inside(hosts.names[0], *driver), timeout=420)
    assert swept.returncode == 0, swept.stdout + swept.stderr
    assert "2 done, 0 failed" in swept.stdout
    runs = list((processes.folder / "results" / "runs").glob("*/final*/hosts"))
    assert len(runs) == 2
    for notes in runs:
        assert {path.name: path.read_text() for path in notes.iterdir()}.keys() == {"rank0", "rank1"}
        assert {path.read_text() for path in notes.iterdir()} == set(hosts.names)
