"""`cse launch ray-job` to a cluster that was started with a token: what travels, who is let in, what is stored."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis.ledger import Ledger
from cluster.runtime.code_version import OURS
from tests.cluster_real.processes import Processes, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

CLUSTER = """version: 1
name: tiny
storage: {folder}/stored
cpus: 2
ray_job: {{address: "{address}"}}
"""
TINY = ("method=simcse", "train.learning_rate=1e-4", "train.encoder=wiki-l1-h64", "train.examples=128")
SWEEP = ("demo", *(word for pair in TINY for word in ("--set", pair)), "--seeds", "2", "--max-concurrent", "1")


class Head:
    """A cluster of one node; its dashboard, to which jobs are sent, is at `address`."""

    def __init__(self, processes: Processes, free_port: Callable[[], int]) -> None:
        self.processes = processes
        self.ports = {name: str(free_port()) for name in ("port", "ray-client-server-port", "dashboard-port")}
        self.address = f"http://127.0.0.1:{self.ports['dashboard-port']}"

    def start(self) -> None:
        size = ("--num-cpus=2", '--resources={"trial_slot": 8}', f"--object-store-memory={128 * 2**20}")
        ports = (f"--{name}={port}" for name, port in (self.ports | {"dashboard-agent-listen-port": "0"}).items())
        where = ("--head", "--node-ip-address=127.0.0.1", f"--temp-dir={self.processes.folder / 'ray'}")
        # Without PYTHONPATH, so that a job finds only the code that it brought.
        argv = ("ray", "start", *where, *ports, *size, "--disable-usage-stats", "--block")
        self.processes.start(*argv, log="head.log", env={"PYTHONPATH": ""})
        wait_until(lambda: "runtime started" in self.processes.said("head.log"), 120, "the head")

    def asked(self, path: str, token: str | None = None) -> Any:
        """What the job API answers."""
        import requests

        token = token or self.processes.environment["RAY_AUTH_TOKEN"]
        headers = {"Authorization": f"Bearer {token}"}
        return requests.get(f"{self.address}/api/jobs/{path}", headers=headers, timeout=60)

    def state(self, job: str) -> str:
        return str(self.asked(job).json()["status"])

    def code(self) -> Path:
        """The folder in which the only uploaded package lies unpacked."""
        pattern = "session_latest/runtime_resources/working_dir_files/_ray_pkg_*/"
        (found,) = (self.processes.folder / "ray").glob(pattern)
        return found


@pytest.fixture
def head(processes: Processes, free_port: Callable[[], int]) -> Head:
    made = Head(processes, free_port)
    made.start()
    (processes.folder / "cluster.yaml").write_text(
        CLUSTER.format(folder=processes.folder, address=made.address), encoding="utf8"
    )
    for decoy in (".venv", "results"):
        (processes.folder / decoy).mkdir()
        (processes.folder / decoy / "large.bin").write_bytes(b"not to be sent")
    return made


def test_a_job_with_the_token_finishes_a_sweep_and_another_token_is_refused(head: Head) -> None:
    processes = head.processes
    wrong = processes.run("cse", "launch", "ray-job", *SWEEP, env={"RAY_AUTH_TOKEN": "0" * 64})
    assert wrong.returncode == 2, wrong.stdout + wrong.stderr
    (line,) = wrong.stderr.strip().splitlines()
    assert line.startswith(f"cse: token refused: address={head.address};")
    assert head.asked("", token="0" * 64).status_code in (401, 403)
    assert head.asked("").json() == [], "the refused job was not taken"

    sent = processes.run("cse", "launch", "ray-job", *SWEEP)
    assert sent.returncode == 0, sent.stdout + sent.stderr
    job = sent.stdout.split()[1].rstrip(";")
    wait_until(lambda: head.state(job) in ("SUCCEEDED", "FAILED", "STOPPED"), 400, f"the end of {job}")
    log = head.asked(f"{job}/logs").json()["logs"]
    assert head.state(job) == "SUCCEEDED", log
    assert "2 done, 0 failed" in log
    assert processes.environment["RAY_AUTH_TOKEN"] not in sent.stdout + sent.stderr + log
    check_ledger(processes.folder / "stored" / "ledger.db")
    check_code(head.code())


def check_ledger(path: Path) -> None:
    ledger = Ledger.open(path, create=False)
    runs = ledger.runs()
    assert [run.state for run in runs] == ["done", "done"]
    assert all(ledger.curves([run.signature]) for run in runs)
    ledger.close()


def check_code(uploaded: Path) -> None:
    assert {path.name for path in uploaded.iterdir() if path.name != "__pycache__"} == set(OURS)
    parts = {part for path in uploaded.rglob("*") for part in path.relative_to(uploaded).parts}
    assert not {".venv", ".git", "results", "large.bin"} & parts
