"""A Ray cluster over two hosts with one token: groups that span both, nodes that come and go, the doctor before it."""

import json
import os
import re
import shutil
import sys
import time
from pathlib import Path

import pytest

from tests.cluster_real.hosts import HERE, Hosts
from tests.cluster_real.processes import REPO, Processes, wait_until

GONE_S = float(os.environ.get("CSE_TEST_NODES_GONE_S", "60"))
"""How long no node trains: 600 takes the whole test to a quarter of an hour."""
USED_S = 30.0
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900 + GONE_S)]


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


FIRST = """
import sys, time
from pathlib import Path
from cluster.runtime.start import ray_cluster
with ray_cluster(Path(sys.argv[1]), num_cpus=1):
    import ray
    Path(sys.argv[1], "address").write_text(ray.get_runtime_context().gcs_address)
    time.sleep(600)
"""


def test_it_trains_there(processes: Processes) -> None:
    address = processes.folder / "ray" / "address"
    processes.start(sys.executable, "-c", FIRST, str(address.parent), log="first.log")
    wait_until(lambda: address.exists() and address.read_text(), 180, f"a cluster: {processes.said('first.log')}")
    assert address.read_text().startswith("127.0.0.1:")
    where = ("--address", address.read_text(), "--ledger", "ledger.db", "--max-concurrent", "1")
    joined = processes.run("cse", "run", "tiny.yaml", *where, timeout=300)
    assert joined.returncode == 0, joined.stdout + joined.stderr
    assert "2 done, 0 failed" in joined.stdout


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
