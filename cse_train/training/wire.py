"""Protocol between a training rank and the process of a user's program: order, messages, and mark of its processes.

Messages are JSON, a line each.
"""

import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cse_train.results import Json

TRIAL_VARIABLE = "CSE_TRIAL"
"""Environment variable that holds the `TrialOrder` of a program's process."""


@dataclass(frozen=True, kw_only=True)
class TrialOrder:
    """Order for a program's process: the code to run, its command line, and its folders."""

    script: str
    """Path of the user's file, which tracebacks show."""
    code: str
    """Path of the file that is run: the sweep's copy of `script`."""
    root: str
    """Folder with the modules that the script imports."""
    places: dict[str, str]
    """Top-level module -> the folder from which it was copied into `root`."""
    arguments: list[str]
    score: str
    steps: int | None
    fit_ends: list[tuple[int, int]]
    """(number of a fit from 0, step of its newest report), from the reports of earlier attempts."""
    fits: str
    """Rule for several fits: score their `mean`, or the `last` one; empty if the space says nothing."""
    last: str
    """Folder of the run's state, from which it resumes."""
    best: str
    """Folder in which the best model is published."""
    mark: Json
    """Content of the file that identifies the run beside its best model."""
    resumes: bool
    """True if an earlier attempt left points or a checkpoint."""
    wire: int
    """File descriptor of the socket to the rank."""
    life: int
    """File descriptor of a pipe that closes when the rank ends."""
    parent: int
    """Process number of the rank."""

    @classmethod
    def read(cls, text: str) -> "TrialOrder":
        return cls(**json.loads(text))

    def text(self) -> str:
        return json.dumps(asdict(self))


Message = Mapping[str, Any]
"""Message between a rank and its program's process: argument of `Wire.say` -> value."""


class Wire:
    """One end of the socket between a rank and its program's process."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._file = end.makefile("rw", encoding="utf8")

    def say(self, **message: Any) -> None:
        self._file.write(json.dumps(message) + "\n")
        self._file.flush()

    def ask(self, **message: Any) -> Message:
        """Sends a message and returns the other end's answer; raises ConnectionResetError if that end is gone."""
        self.say(**message)
        line = self._file.readline()
        if not line:
            raise ConnectionResetError("the rank of this run is gone")
        return dict(json.loads(line))

    def listen(self) -> Iterator[Message]:
        """Yields the other end's messages until it is closed."""
        for line in self._file:
            yield json.loads(line)

    def end(self) -> None:
        """Lets `listen` end once every message has been read, whoever else holds the other end."""
        self._end.shutdown(socket.SHUT_RD)


MARK_VARIABLE = "CSE_PROGRAM"
"""Environment variable that all processes of one program share; its value is a number that no other program has."""
ROUNDS, ROUND_SECONDS = 100, 0.02
"""Number of looks for processes that were started while others were ended, and seconds between two looks."""


def end_marked(mark: str, spare: int = 0) -> None:
    """Ends all processes of this machine with the mark, except process `spare`; does nothing without /proc.

    Ranks of torchrun, and all that is started with `start_new_session`, are in no process group of the run.
    """
    for _ in range(ROUNDS):
        ended = [process for process in _list_processes() if process != spare and _end(process, mark)]
        if not ended:
            return
        time.sleep(ROUND_SECONDS)


def _list_processes() -> list[int]:
    with contextlib.suppress(OSError):
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return []


def _end(process: int, mark: str) -> bool:
    """Sends SIGKILL to a process if it has the mark; returns True if it did."""
    try:
        handle = os.pidfd_open(process)
    except (OSError, AttributeError):
        handle = -1  # the process is gone, or this system has no handles: a number may then be another's by the kill
    try:
        words = Path("/proc", str(process), "environ").read_bytes().split(b"\0")
        if f"{MARK_VARIABLE}={mark}".encode() not in words:
            return False
        if handle >= 0:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        else:
            os.kill(process, signal.SIGKILL)
        return True
    except OSError:  # another user's, or gone
        return False
    finally:
        if handle >= 0:
            os.close(handle)
