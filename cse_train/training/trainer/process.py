"""Process of one run: starts it with what it needs, receives its messages until it ends, and ends it with its rank."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from cse_train import distributed
from cse_train.plugins.source import HOME
from cse_train.results import Json
from cse_train.training.trainer.marked import MARK_VARIABLE, end_marked
from cse_train.training.trainer.wire import TRIAL_VARIABLE, TrialOrder, Wire

GROUP_VARIABLES = (
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT",
    "ACCELERATE_TORCH_DEVICE",
)  # fmt: skip
"""Environment variables by which a program finds its process group; a run on one rank has none of them."""
LOG_BYTES = 20_000_000
"""Bytes of a program's output beyond which the middle of it is left out."""
LOG_END_BYTES = 1_000_000
"""Bytes of a long output that stay at each of its ends."""
LAST_LINE_BYTES = 20_000
"""Bytes at the end of a program's output in which its last line is looked for."""


class Program:
    """Process of a run's program, from its start to its end."""

    def __init__(self, order: Callable[[int, int], TrialOrder], folder: Path, threads: int, port: int) -> None:
        """Starts the process in `folder`; `order(wire, life)` builds its order from two file descriptors."""
        rank_end, program_end = socket.socketpair()
        life, self._alive = os.pipe()
        self.wire, self._mark = Wire(rank_end), uuid.uuid4().hex
        self._log = _open_log()
        self._start = os.fstat(self._log.fileno()).st_size
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "cse_train.training.trainer.child"],
                cwd=folder,
                env=_environment(threads, port)
                | {TRIAL_VARIABLE: order(program_end.fileno(), life).text(), MARK_VARIABLE: self._mark},
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                pass_fds=(program_end.fileno(), life),
                start_new_session=True,
            )
        finally:
            program_end.close()
            os.close(life)
        threading.Thread(target=self._await, daemon=True).start()

    def _await(self) -> None:
        """Ends `listen` when the process ends, although its forks may hold the other end of the socket for ever."""
        self._process.wait()
        with contextlib.suppress(OSError):
            self.wire.end()

    def listen(self) -> Iterator[Json]:
        """Yields the process's messages until it ends."""
        with contextlib.suppress(ConnectionError):
            yield from self.wire.listen()

    def answer(self, **message: Any) -> None:
        with contextlib.suppress(ConnectionError):
            self.wire.say(**message)

    def wait(self) -> int:
        """Waits for the process and returns its exit code, below 0 for a signal."""
        return self._process.wait()

    def end(self) -> None:
        """Ends the process and all that it has started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        end_marked(self._mark)
        os.close(self._alive)
        _shorten(self._log, self._start)

    def last_line(self) -> str:
        """Returns the last non-empty line that the program printed; empty if there is none."""
        path = Path(str(self._log.name))
        with path.open("rb") as file:
            file.seek(max(self._start, file.seek(0, os.SEEK_END) - LAST_LINE_BYTES))
            lines = [line.strip() for line in file.read().decode("utf8", "replace").splitlines()]
        return next((line for line in reversed(lines) if line), "")


def _open_log() -> IO[Any]:
    """Opens this rank's log if its output goes into a file, else a temporary file."""
    out = sys.stdout
    with contextlib.suppress(OSError, AttributeError, ValueError):
        if os.path.isfile(str(out.name)) and os.path.samestat(os.fstat(out.fileno()), os.stat(out.name)):
            return open(out.name, "ab")
    return tempfile.NamedTemporaryFile("ab", suffix=".log")


def _shorten(log: IO[Any], start: int) -> None:
    """Cuts the middle out of a log that is too long, and closes it."""
    path = Path(str(log.name))
    size = path.stat().st_size
    if size - start > LOG_BYTES:
        with path.open("r+b") as file:
            file.seek(size - LOG_END_BYTES)
            tail = file.read()
            file.truncate(start + LOG_END_BYTES)
            file.seek(0, os.SEEK_END)
            file.write(f"\n... {size - start - 2 * LOG_END_BYTES} bytes of output are left out ...\n".encode() + tail)
    log.close()


def _environment(threads: int, port: int) -> dict[str, str]:
    """Returns the environment of a program: with one rank no group's variables, with several those of its own group.

    The group of the program has a port of its own, because the ranks themselves use the other one.
    """
    env = {name: value for name, value in os.environ.items() if name not in GROUP_VARIABLES}
    size, rank = distributed.size(), distributed.rank()
    if size > 1:
        env |= {name: os.environ[name] for name in GROUP_VARIABLES if name in os.environ}
        env |= {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_PORT": str(port)}
        env |= {"LOCAL_RANK": env.get("LOCAL_RANK", str(rank))}
        if not distributed.has_card():  # else accelerate takes a CPU for a process of its own
            env["ACCELERATE_USE_CPU"] = "true"
    env["OMP_NUM_THREADS"] = str(threads)
    env["PYTHONUNBUFFERED"] = "1"
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH", ""), str(HOME)]))
    return env


def find_port() -> int:
    """Returns a port that is free on the first rank's machine, the same number on every rank."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return distributed.share(probe.getsockname()[1])


def name_signal(code: int) -> str:
    """Returns the name of the signal that an exit code below 0 stands for."""
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
