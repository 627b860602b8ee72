"""The most memory that the worker groups of a Ray started by this process have taken, by sampling."""

import contextlib
import subprocess
import threading

import psutil

MEMORY_PERIOD_S = 0.5
WORKER_TITLE = "ray::"
"""How Ray titles a worker's process."""
NO_WORKERS = ("ray::IDLE", "ray::DashboardAgent", "ray::RuntimeEnvAgent")
"""Workers of Ray's own, that no group starts."""
QUERY = ("nvidia-smi", "--query-gpu=memory.used,memory.total", "--format=csv,noheader,nounits")


class MemoryWatch:
    """Samples of a process. `peak`: bytes of main memory of its worker groups, shared pages counted in part (PSS)."""

    def __init__(self, pid: int, gpus: bool = False) -> None:
        self._process, self._gpus = psutil.Process(pid), gpus
        self._before, self.gpu_size = gpu_memory() if gpus else (0.0, 0.0)
        """Bytes taken on the GPUs before, and bytes of the largest GPU."""
        self.peak = 0.0
        self.gpu_peak = 0.0
        """Bytes on the GPUs, over what was taken before."""

    def sample(self) -> None:
        """Look once at the descendants of the process."""
        self.peak = max(self.peak, sum(_group_memory(child) for child in self._process.children(recursive=True)))
        if self._gpus:
            self.gpu_peak = max(self.gpu_peak, gpu_memory()[0] - self._before)

    def sample_until(self, done: threading.Event) -> None:
        while not done.wait(MEMORY_PERIOD_S):
            self.sample()


def gpu_memory() -> tuple[float, float]:
    """Bytes taken on all NVIDIA GPUs together and bytes of the largest; zeros where there is no driver."""
    try:
        table = subprocess.run(QUERY, capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return 0.0, 0.0
    pairs = [tuple(map(float, line.split(","))) for line in table.splitlines() if line.strip()]
    return sum(used for used, _ in pairs) * 2**20, max((size for _, size in pairs), default=0.0) * 2**20


def _group_memory(process: psutil.Process) -> float:
    """Bytes of a process of a worker group; 0 for any other, and for one that is gone."""
    with contextlib.suppress(psutil.Error):
        title = " ".join(process.cmdline())
        if title.startswith(WORKER_TITLE) and not title.startswith(NO_WORKERS):
            return float(process.memory_full_info().pss)
    return 0.0
