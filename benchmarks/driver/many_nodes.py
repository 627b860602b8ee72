"""What growth costs: 256 stub slots on eight simulated nodes, of one driver and of four on one PostgreSQL ledger.

Slots sleep, and are forks of one process (`forked_worker`), so that two cores and 24 GB carry them. Nodes are raylets
that claim CPUs and memory. The share is of the ideal makespan, in which no slot ever waits; beside it stand what a
trial costs each driver, Ray's head and the database, and how many connections that had at most.

    python -m benchmarks.driver.many_nodes [--slots 256] [--nodes 8] [--drivers 1 4] [--seconds 20] [--rounds 3]
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import sqlalchemy

from benchmarks.driver import forked_worker
from benchmarks.driver.orchestration import GB_PER_SLOT, sweep
from benchmarks.driver.sleeping import Load
from cluster.runtime.ray_internals import bind_loopback
from cluster.runtime.resources import SLOT
from cluster.runtime.start import OBJECT_STORE_BYTES, TRIAL_SLOTS, keep_token_private, ray_cluster, require_token
from tests.cluster_real.postgres import Postgres
from tests.cluster_real.processes import Processes, wait_until

BAR_SHARE = 0.9
GROUP = "benchmarks.driver.sleeping:SleepingGroup"
RARE_REPORTS = {
    "RAY_task_events_report_interval_ms": "10000",
    "RAY_metrics_report_interval_ms": "60000",
    "RAY_core_worker_internal_heartbeat_ms": "10000",
}
"""Ray's settings for rare reports: else its 256 idle workers take much of two cores; a cluster has nodes for them."""
HEADER = """| drivers | slots | rounds | share of ideal | s until all slots ran | driver CPU ms per trial, each | \
Ray's GCS CPU ms per trial | database CPU ms per trial | transactions per trial | connections at most | own MB |
|---|---|---|---|---|---|---|---|---|---|---|"""


@contextlib.contextmanager
def simulated_nodes(nodes: int, slots: int) -> Iterator[str]:
    """The address of a cluster of a head without CPUs and so many nodes; its workers are forks."""
    from ray.cluster_utils import Cluster

    require_token()
    keep_token_private()
    os.environ.update(RARE_REPORTS)
    with tempfile.TemporaryDirectory(prefix="cse-fork-", dir="/tmp") as folder, bind_loopback():
        os.environ[forked_worker.SOCKET] = f"{folder}/socket"
        forker = subprocess.Popen([sys.executable, "-m", forked_worker.__name__])
        wait_until(Path(folder, "socket").exists, 120, "the process that forks workers")
        common = {"setup_worker_path": forked_worker.__file__, "object_store_memory": OBJECT_STORE_BYTES // 2}
        cluster = Cluster()
        try:
            cluster.add_node(num_cpus=0, dashboard_port=_free_port(), **common)
            memory = int(slots / nodes * GB_PER_SLOT * 2**30)
            for _ in range(nodes):
                cluster.add_node(num_cpus=slots // nodes, memory=memory, resources={SLOT: TRIAL_SLOTS}, **common)
            yield cluster.gcs_address
        finally:
            cluster.shutdown()
            forker.kill()
            forker.wait()


@contextlib.contextmanager
def database() -> Iterator[Postgres]:
    """Starts a PostgreSQL server with default settings for the block."""
    with tempfile.TemporaryDirectory(prefix="cse-pg-", dir="/tmp") as name:
        Path(name).chmod(0o755)
        server = Postgres(Processes(Path(name)), _free_port())
        server.create()
        server.start()
        try:
            yield server
        finally:
            server.stop()


class Watched:
    """The database and Ray's head while drivers run: connections at most, transactions, seconds of CPU."""

    def __init__(self, server: Postgres) -> None:
        self._engine = sqlalchemy.create_engine(server.url.replace("postgresql://", "postgresql+psycopg://"))
        self._postmaster = psutil.Process(int((server.folder / "data" / "postmaster.pid").read_text().split()[0]))
        # Ray started it from this process; other clusters of the machine have theirs.
        (self._head,) = (each for each in psutil.Process().children(recursive=True) if each.name() == "gcs_server")
        self._over, self._thread = threading.Event(), threading.Thread(target=self._look)
        self.connections = 0
        self._before = self._measure()
        self._thread.start()

    def end(self) -> tuple[float, float, float]:
        """Since the start: transactions, seconds of the database, seconds of Ray's head."""
        self._over.set()
        self._thread.join()
        before, after = self._before, self._measure()
        return after[0] - before[0], after[1] - before[1], after[2] - before[2]

    def _look(self) -> None:
        while not self._over.wait(1.0):
            asked = "select count(*) from pg_stat_activity where backend_type = 'client backend'"
            self.connections = max(self.connections, int(self._ask(asked)) - 1)

    def _ask(self, query: str) -> float:
        with self._engine.connect() as connection:
            return float(connection.execute(sqlalchemy.text(query)).scalar_one())

    def _measure(self) -> tuple[float, float, float]:
        transactions = self._ask("select sum(xact_commit) from pg_stat_database")
        used = self._postmaster.cpu_times()
        living = sum(sum(each.cpu_times()[:2]) for each in self._postmaster.children())
        return transactions, sum(used[:4]) + living, sum(self._head.cpu_times()[:2])


def measure(address: str, load: Load, server: Postgres) -> str:
    """Runs the drivers of a load side by side; returns the table row of what they and the servers cost."""
    load.write()
    watched = Watched(server)
    words = [sys.executable, "-m", __spec__.name, "--join", address, "--ledger", server.url, "--folder", load.folder]
    begun = time.time()
    started = [
        subprocess.Popen([*words, "--driver", str(number)], stdout=subprocess.PIPE, text=True)
        for number in range(load.drivers)
    ]
    said = [process.communicate()[0] for process in started]
    assert not any(process.returncode for process in started), said
    results = [json.loads(text.splitlines()[-1]) for text in said]
    transactions, of_database, of_head = (amount / load.trials for amount in watched.end())
    drivers = ", ".join(f"{result['driver_ms']:.1f}" for result in results)
    own_mb = max(result["own_mb"] for result in results)
    sizes = f"{load.slots} | {load.rounds} x {load.seconds:g} s | {load.share():.3f} | {load.begun() - begun:.0f}"
    costs = (
        f"{1000 * of_head:.1f} | {1000 * of_database:.1f} | {transactions:.1f} | {watched.connections} | {own_mb:.0f}"
    )
    return f"| {load.drivers} | {sizes} | {drivers} | {costs} |"


def drive(address: str, ledger: str, folder: str, driver: int) -> None:
    """Runs one driver of a load in this process, and prints its costs as JSON."""
    load = Load.read(Path(folder, "load.json"))
    with ray_cluster(Path(folder, f"driver-{driver}"), address=address):
        most = load.slots // load.drivers
        measured = sweep("stub", load, driver=driver, ledger=ledger, group=GROUP, max_concurrent=most)
    print(json.dumps({"driver_ms": measured.driver_ms, "own_mb": measured.own_mb}))


def _free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slots", type=int, default=256)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--drivers", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=3)
    for name in ("--join", "--ledger", "--folder", "--driver"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.join:
        drive(given.join, given.ledger, given.folder, int(given.driver))
        return
    print(f"{len(os.sched_getaffinity(0))} CPUs, load {os.getloadavg()[0]:.1f} before\n{HEADER}", flush=True)
    for drivers in given.drivers:
        with (
            simulated_nodes(given.nodes, given.slots) as address,
            database() as server,
            tempfile.TemporaryDirectory(prefix="cse-load-", dir="/tmp") as folder,
        ):
            load = Load(folder, given.slots, given.seconds, given.rounds, drivers)
            print(measure(address, load, server), flush=True)
    print(f"bar for the share: {BAR_SHARE:g}")


if __name__ == "__main__":
    main()
