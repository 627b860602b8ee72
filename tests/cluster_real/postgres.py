"""A PostgreSQL server of one's own: in a folder, on a free port, with a password, never as root."""

import os
import shutil
import subprocess
from pathlib import Path

from tests.cluster_real.processes import Processes

PASSWORD = "only-for-this-test"
USER = "postgres"
"""Debian's user, who runs the server where the test is root: PostgreSQL refuses to run as root."""


def programs() -> Path | None:
    """The folder of initdb and pg_ctl, of the newest version that Debian's packages installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), key=lambda path: float(path.parts[4]))
    return found[-1].parent if found else None


class Postgres:
    """One server; `url` is what --ledger takes."""

    def __init__(self, processes: Processes, port: int) -> None:
        self.processes, self.port = processes, port
        self.folder = processes.folder / "postgres"
        self.url = f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{port}/postgres"

    def create(self) -> None:
        """A new cluster whose every connection needs the password."""
        self.folder.mkdir(mode=0o700)
        secret = self.folder / "password"
        secret.write_text(PASSWORD, encoding="utf8")
        if os.geteuid() == 0:
            for path in (self.folder, secret):
                shutil.chown(path, USER, USER)
        data = str(self.folder / "data")
        self._run("initdb", "-D", data, "-U", USER, "-A", "scram-sha-256", "--pwfile", str(secret), "--no-sync")

    def start(self) -> None:
        options = f"-h 127.0.0.1 -p {self.port} -k {self.folder}"
        self._control("start", "-w", "-l", str(self.folder / "log"), "-o", options)

    def stop(self) -> None:
        self._control("stop", "-m", "immediate")

    def _control(self, what: str, *options: str) -> None:
        self._run("pg_ctl", what, "-D", str(self.folder / "data"), *options)

    def _run(self, program: str, *options: str) -> None:
        bin_folder = programs()
        assert bin_folder is not None
        as_user = ["runuser", "-u", USER, "--"] if os.geteuid() == 0 else []
        # The server keeps its starter's outputs open, so they go to a file and not to a pipe.
        with (self.processes.folder / "postgres.out").open("ab") as said:
            done = subprocess.run(
                [*as_user, str(bin_folder / program), *options],
                cwd="/",
                env=self.processes.environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                timeout=120,
            )
        assert done.returncode == 0, self.processes.said("postgres.out")
