"""What tests on real clusters share: a short folder, processes that are always ended, a tiny space, free ports."""

import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster_real.head import Head
from tests.cluster_real.hosts import Hosts
from tests.cluster_real.postgres import Postgres, programs
from tests.cluster_real.processes import Processes
from tests.cluster_real.slurm import Slurm

SPACE = """version: 1
id: tiny
method: simcse
seeds: 2
set:
  train.encoder: words-l1-h64
  train.corpus: generated
  train.dev: "generated_dev:40"
  train.examples: 128
  train.batch_size: 16
  train.evaluations: 2
space:
  method.temperature: {grid: [0.05]}
"""
"""Two runs of some seconds, without data or network."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path, which sockets need, that other users may enter; removed in the end."""
    made = Path(tempfile.mkdtemp(prefix="cse-real-", dir="/tmp"))
    made.chmod(0o755)
    (made / "tiny.yaml").write_text(SPACE, encoding="utf8")
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def processes(folder: Path) -> Iterator[Processes]:
    made = Processes(folder)
    yield made
    made.end()


@pytest.fixture
def needs() -> Callable[..., None]:
    """`needs(package, program…)` skips the test with its apt line where a program is absent, or without root."""

    def check(package: str, *programs: str, root: bool = False) -> None:
        path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
        absent = [program for program in programs if shutil.which(program, path=path) is None]
        if absent:
            pytest.skip(f"no {', '.join(absent)}: apt-get install {package}")
        if root and os.geteuid() != 0:
            pytest.skip("needs root")

    return check


@pytest.fixture
def free_port() -> Callable[[], int]:
    """A port of 127.0.0.1 on which nobody listens now, another one at each call."""
    held = []

    def take() -> int:
        taken = socket.socket()
        taken.bind(("127.0.0.1", 0))
        held.append(taken)
        return int(taken.getsockname()[1])

    ports = [take() for _ in range(12)]
    for one in held:
        one.close()
    return iter(ports).__next__


@pytest.fixture
def head(processes: Processes, free_port: Callable[[], int]) -> Head:
    made = Head(processes, free_port)
    made.start()
    return made


@pytest.fixture
def server(processes: Processes, free_port: Callable[[], int]) -> Iterator[Postgres]:
    pytest.importorskip("psycopg", reason="pip install 'psycopg[binary]'")
    if programs() is None:
        pytest.skip("no pg_ctl: apt-get install postgresql")
    made = Postgres(processes, free_port())
    made.create()
    made.start()
    yield made
    made.stop()


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


@pytest.fixture
def slurm(needs: Callable[..., None], processes: Processes, free_port: Callable[[], int]) -> Iterator[Slurm]:
    needs("slurmctld slurmd munge", "slurmctld", "slurmd", "munged", root=True)
    needs("slurm-client", "sbatch", "squeue", "sinfo")
    made = Slurm(processes, free_port)
    try:
        made.start()
        yield made
    finally:
        made.stop()
