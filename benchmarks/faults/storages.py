"""Rows of what holds the results: the ledger's server, the disk of the ledger, the disk of the checkpoints."""

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.faults.sweep import END_S, Sweep
from tests.cluster_real.postgres import Postgres

AWAY_S = 20.0


class ServerRestarted(Sweep):
    """PostgreSQL, which holds ledger and study, is stopped at once and started again after some seconds."""

    slots = 2

    def create(self) -> None:
        self.folder.chmod(0o755)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = int(free.getsockname()[1])
        self.server = Postgres(self.processes, port)
        self.server.create()
        self.server.start()
        self.url = self.server.url

    def hurt(self, rng: np.random.Generator) -> list[str]:
        self.server.stop()
        time.sleep(rng.uniform(0, AWAY_S))
        self.server.start()
        return []

    def end(self) -> None:
        super().end()
        with contextlib.suppress(AssertionError):
            self.server.stop()


class NoSpace(Sweep):
    """Sweep whose checkpoint disk, ledger disk or storage, in turn, is full or read-only."""

    def create(self) -> None:
        self.disks = (self.storage, self.folder / "ledger")
        for disk, size in zip(self.disks, ("256m", "32m"), strict=True):
            disk.mkdir()
            _run("mount", "-t", "tmpfs", "-o", f"size={size}", "cse-fault", str(disk))
        self.url = str(self.folder / "ledger" / "ledger.db")
        self.turns: list[tuple[Callable[[], None], Callable[[], None]]] = [
            (lambda: fill(self.storage), (self.storage / "filler").unlink),
            (lambda: fill(self.disks[1]), (self.disks[1] / "filler").unlink),
            (
                lambda: _run("mount", "-o", "bind,ro", str(self.storage), str(self.storage)),
                lambda: _run("umount", "-l", str(self.storage)),
            ),
        ]

    def hurt(self, rng: np.random.Generator) -> list[str]:
        strike, mend = self.turns[(len(self.started) - 1) % len(self.turns)]
        strike()
        try:
            code = self.driver.wait(END_S)
        finally:
            mend()
        said = self.said()
        self.start()
        problems = ["exit code 0"] if code == 0 else []
        return problems + ([f"no clear reason: {said[-300:]}"] if "Traceback" in said or not _clear(said) else [])

    def end(self) -> None:
        super().end()
        for disk in self.disks:
            _run("umount", "-l", str(disk))


def fill(folder: Path) -> None:
    """Leave no byte free."""
    with (folder / "filler").open("wb", buffering=0) as file:
        while shutil.disk_usage(folder).free:
            with contextlib.suppress(OSError):
                file.write(bytes(2**16))


def _clear(said: str) -> bool:
    last = said.strip().splitlines()[-1:]
    return any(mark in line for line in last for mark in ("disk full", "no space left", "not writable", "read-only"))


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True)
