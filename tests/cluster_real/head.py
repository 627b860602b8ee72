"""A cluster of one node with a token, to whose dashboard jobs are sent."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cluster_real.processes import Processes, wait_until

CLUSTER = """version: 1
name: tiny
storage: {folder}/stored
cpus: 2
ray_job: {{address: "{address}"}}
"""


class Head:
    """A cluster of one node; its dashboard, to which jobs are sent, is at `address`."""

    def __init__(self, processes: Processes, free_port: Callable[[], int]) -> None:
        self.processes = processes
        self.ports = {name: str(free_port()) for name in ("port", "ray-client-server-port", "dashboard-port")}
        self.address = f"http://127.0.0.1:{self.ports['dashboard-port']}"

    def start(self, path: str | None = None) -> None:
        """`path`: where programs are looked for, of another environment than that of the tests."""
        size = ("--num-cpus=2", '--resources={"trial_slot": 8}', f"--object-store-memory={128 * 2**20}")
        ports = (f"--{name}={port}" for name, port in (self.ports | {"dashboard-agent-listen-port": "0"}).items())
        where = ("--head", "--node-ip-address=127.0.0.1", f"--temp-dir={self.processes.folder / 'ray'}")
        # Without PYTHONPATH, so that a job finds only the code that it brought.
        env = {"PYTHONPATH": ""} | ({"PATH": path} if path else {})
        argv = ("ray", "start", *where, *ports, *size, "--disable-usage-stats", "--block")
        self.processes.start(*argv, log="head.log", env=env)
        wait_until(lambda: "runtime started" in self.processes.said("head.log"), 120, "the head")

        cluster = CLUSTER.format(folder=self.processes.folder, address=self.address)
        (self.processes.folder / "cluster.yaml").write_text(cluster, encoding="utf8")

    def asked(self, path: str, token: str | None = None) -> Any:
        """What the job API answers."""
        import requests

        token = token or self.processes.environment["RAY_AUTH_TOKEN"]
        headers = {"Authorization": f"Bearer {token}"}
        return requests.get(f"{self.address}/api/jobs/{path}", headers=headers, timeout=60)

    def state(self, job: str) -> str:
        return str(self.asked(job).json()["status"])

    def finished(self, *sweep: str) -> str:
        """Send a sweep and wait for its end: what both sides said."""
        sent = self.processes.run("cse", "launch", "ray-job", *sweep)
        assert sent.returncode == 0, sent.stdout + sent.stderr
        return sent.stdout + sent.stderr + self.log(sent.stdout.split()[1].rstrip(";"))

    def log(self, job: str) -> str:
        """What a job has said when it is at its end; AssertionError for one that failed."""
        wait_until(lambda: self.state(job) in ("SUCCEEDED", "FAILED", "STOPPED"), 400, f"the end of {job}")
        log = str(self.asked(f"{job}/logs").json()["logs"])
        assert self.state(job) == "SUCCEEDED", log
        return log

    def code(self) -> Path:
        """The folder in which the only uploaded package lies unpacked."""
        pattern = "session_latest/runtime_resources/working_dir_files/_ray_pkg_*/"
        (found,) = (self.processes.folder / "ray").glob(pattern)
        return found
