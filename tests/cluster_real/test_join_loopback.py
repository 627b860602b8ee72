"""A second command joins by --address the cluster that one of our drivers started on loopback."""

import sys

import pytest

from tests.cluster_real.processes import Processes, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
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
