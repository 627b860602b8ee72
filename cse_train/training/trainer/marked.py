"""Ends all processes of one run's program, whatever their session: they inherit a mark in their environment."""

import contextlib
import os
import signal
import time
from pathlib import Path

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
