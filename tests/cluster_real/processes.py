"""The processes of a test: each carries a mark in its environment, and all that carry it are ended in any case."""

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

from cluster.runtime import processes

REPO = Path(__file__).resolve().parents[2]
MARK = "CSE_TEST_PROCESSES"
END_S = 30.0
ASK_S = 3.0
"""Seconds that processes have to end when asked: a raylet would wait 10 s for its agents, which nobody needs here."""


class Processes:
    """Starts programs in `folder` under one Ray token, with this checkout's packages; `end` leaves none behind."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._mark = secrets.token_hex(16)
        self._seen: set[tuple[int, str]] = set()
        self.environment = _plain_environment() | {
            MARK: self._mark,
            "CSE_CACHE": str(folder / "cache"),
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
        }

    def start(self, *argv: str, log: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """A program in the background; what it says goes to the file `log` of the folder."""
        with (self.folder / log).open("ab") as file:
            return subprocess.Popen(
                argv,
                cwd=self.folder,
                env=self.environment | dict(env or {}),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    def run(
        self, *argv: str, timeout: float = 240, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """A program to its end, at most `timeout` seconds."""
        return subprocess.run(
            argv,
            cwd=self.folder,
            env=self.environment | dict(env or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def said(self, log: str) -> str:
        """What the program of this log has said so far."""
        path = self.folder / log
        return path.read_text(errors="replace") if path.exists() else ""

    def kill(self) -> None:
        """SIGKILL to every process that was started here, as when a machine or a pod is gone."""
        while alive := self._alive():
            for pid in alive:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)

    def end(self) -> None:
        """End every process that was started here, first asked, then killed; AssertionError for one that stays."""
        deadline = time.monotonic() + END_S
        asked: set[int] = set()
        alive = self._alive()
        left = processes.listener_folders(process for process in psutil.process_iter() if process.pid in alive)
        while (alive := self._alive()) and time.monotonic() < deadline:
            patient = time.monotonic() < deadline - END_S + ASK_S
            for pid in alive if not patient else alive - asked:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM if patient else signal.SIGKILL)
            asked |= alive
            time.sleep(0.3)
        processes.remove(left)
        assert not alive, f"still alive: {alive}"

    def _alive(self) -> set[int]:
        """Pids of what carries the mark, of all its descendants, and of those seen before that still live.

        A program that writes its title over its environment, as Ray's workers do, is found by its parents.
        """
        parents = dict(_processes())
        found = {pid for pid, *_ in parents if _environment(pid).find(self._mark.encode()) >= 0}
        for (pid, _), parent in sorted(parents.items()):
            if parent in found:
                found.add(pid)
        known = {(pid, began) for pid, began in parents if pid in found or (pid, began) in self._seen}
        self._seen |= known
        return {pid for pid, _ in known}


def wait_until(condition: object, seconds: float, what: str) -> None:
    """Poll `condition()` until it holds; AssertionError with `what` after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.3)


def below(pid: int) -> list[psutil.Process]:
    """All descendants of a process; none when it is gone."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


def title(process: psutil.Process) -> str:
    """A process's command line; empty when it is gone."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _plain_environment() -> dict[str, str]:
    """The user's environment without Ray's settings; our packages from this checkout, programs from this Python."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return kept | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "PYTHONPATH": str(REPO),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }


def _processes() -> list[tuple[tuple[int, str], int]]:
    """((pid, start time), parent) of every living process that is no zombie."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text(errors="replace").rpartition(")")[2].split()
            if fields[0] != "Z":
                found.append(((int(path.parent.name), fields[19]), int(fields[1])))
    return found


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""
