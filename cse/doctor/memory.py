"""The most memory that the worker groups of a Ray started by this process have taken, by sampling."""

import contextlib
import threading

import psutil

MEMORY_PERIOD_S = 0.5
WORKER_TITLE = "ray::"
"""How Ray titles a worker's process."""
NO_WORKERS = ("ray::IDLE", "ray::DashboardAgent", "ray::RuntimeEnvAgent")
"""Workers of Ray's own, that no group starts."""


class MemoryWatch:
    """Samples of a process. `peak`: bytes of main memory of its worker groups, shared pages counted in part (PSS)."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self.peak = 0.0

    def sample(self) -> None:
        """Look once at the descendants of the process."""
        self.peak = max(self.peak, sum(_group_memory(child) for child in self._process.children(recursive=True)))

    def sample_until(self, done: threading.Event) -> None:
        while not done.wait(MEMORY_PERIOD_S):
            self.sample()


def _group_memory(process: psutil.Process) -> float:
    """Bytes of a process of a worker group; 0 for any other, and for one that is gone."""
    with contextlib.suppress(psutil.Error):
        title = " ".join(process.cmdline())
        if title.startswith(WORKER_TITLE) and not title.startswith(NO_WORKERS):
            return float(process.memory_full_info().pss)
    return 0.0
