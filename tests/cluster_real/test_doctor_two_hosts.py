"""`cse doctor` before a cluster of two hosts, of which the second has other code, no data and another storage."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.cluster_real.hosts import Hosts
from tests.cluster_real.processes import REPO, Processes, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
ELSEWHERE = 'mount --bind "$0" "$1" && mount -t tmpfs none "$2" && shift 2 && exec "$@"'
"""Runs a command where folder 0 is seen in place of folder 1, and folder 2 is empty."""


def start_other_node(hosts: Hosts, private: Path) -> None:
    """The second host's node; its `cluster` package differs by a comment."""
    processes, name = hosts.processes, hosts.names[1]
    code = processes.folder / "other"
    shutil.copytree(REPO / "cluster", code, ignore=shutil.ignore_patterns("__pycache__"))
    with (code / "scale.py").open("a") as file:
        file.write("# edited\n")
    mounted = ("unshare", "--mount", "sh", "-c", ELSEWHERE, str(code), str(REPO / "cluster"), str(private))
    node = ("ray", "start", "--address", hosts.cluster, "--node-ip-address", hosts.addresses[1])
    size = ("--num-cpus", "1", "--object-store-memory", str(128 * 2**20), "--temp-dir", str(processes.folder / name))
    argv = (*mounted, *node, *size, "--disable-usage-stats", "--block")
    processes.start(*hosts.inside(name, *argv), log=f"{name}.log")


def examined(hosts: Hosts, *options: str, env: dict[str, str] | None = None) -> list[str]:
    """Lines that stop a sweep, told by a doctor on the head that exits with 2."""
    where = ("--address", hosts.cluster, *options, "--format", "json")
    driver = hosts.inside(hosts.names[0], sys.executable, "-m", "cse", "doctor", *where)
    done = hosts.processes.run(*driver, timeout=200, env=env)
    assert done.returncode == 2, done.stdout + done.stderr
    return [one["line"] for one in json.loads(done.stdout)["rows"] if one["level"] == "stop"]


def test_every_fault_of_a_node_is_named(hosts: Hosts) -> None:
    processes: Processes = hosts.processes
    private = processes.folder / "private"
    private.mkdir()
    text = private / "text.txt"
    text.write_text("a sentence\n")
    hosts.start_head()
    start_other_node(hosts, private)
    wait_until(lambda: "runtime started" in processes.said(f"{hosts.names[1]}.log"), 90, "the second node")

    second = f"{hosts.names[1]} ({hosts.addresses[1]})"
    found = examined(hosts, "--storage", str(private / "runs"), "--train-file", str(text))
    assert [line.partition(second)[0] + second for line in found] == [
        f"different code: node={second}",
        f"storage not shared: node={second}",
        f"node without data: node={second}",
    ]
    (refused,) = examined(hosts, env={"RAY_AUTH_TOKEN": "0" * 64})
    assert "RAY_AUTH_TOKEN" in refused and f"address={hosts.cluster}" in refused
