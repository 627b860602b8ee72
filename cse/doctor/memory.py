"""Samples the main memory of Ray worker groups that this process started, and keeps the peak."""

import contextlib
import threading

import psutil

SAMPLE_SECONDS = 0.5
WORKER_TITLE = "ray::"
"""Prefix of a worker's process title in Ray."""
NO_WORKERS = ("ray::IDLE", "ray::DashboardAgent", "ray::RuntimeEnvAgent")
"""Prefixes of process titles of Ray's own workers, which belong to no worker group."""


class MemoryWatch:
    """Peak main memory of a process's worker groups in bytes (`peak`); shared pages count in part (PSS)."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self.peak = 0.0

    def sample(self) -> None:
        """Measures the memory of the worker processes below the watched process once, and raises `peak` if it is
        higher."""
        self.peak = max(self.peak, sum(_group_memory(child) for child in self._process.children(recursive=True)))

    def sample_until(self, done: threading.Event) -> None:
        while not done.wait(SAMPLE_SECONDS):
            self.sample()


def _group_memory(process: psutil.Process) -> float:
    """Returns the bytes of a worker's process; 0 for any other process, and for one that has ended."""
    with contextlib.suppress(psutil.Error):
        title = " ".join(process.cmdline())
        if title.startswith(WORKER_TITLE) and not title.startswith(NO_WORKERS):
            return float(process.memory_full_info().pss)
    return 0.0
