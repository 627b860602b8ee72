"""The most memory that the worker groups of a Ray started by this process have taken, sampled from Linux's /proc."""

import contextlib
import subprocess
import threading
from pathlib import Path
from typing import Any

PERIOD_S = 0.5
TITLE = "ray::"
"""How Ray titles a worker's process."""
OTHERS = ("ray::IDLE", "ray::DashboardAgent", "ray::RuntimeEnvAgent")
"""Workers of Ray's own, that no group starts."""
CARDS = ("nvidia-smi", "--query-gpu=memory.used,memory.total", "--format=csv,noheader,nounits")


class MemoryWatch:
    """Samples while inside. `peak`: bytes of main memory, pages shared with others counted in part (PSS)."""

    def __init__(self, pid: int, proc: Path = Path("/proc"), cards: bool = False) -> None:
        self._pid, self._proc, self._cards = pid, proc, cards
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._before = card_memory() if cards else (0.0, 0.0)
        self.peak = 0.0
        self.card_peak = 0.0
        """Bytes on the cards, over what was taken before."""
        self.card_size = self._before[1]
        """Bytes of the largest card."""

    def __enter__(self) -> "MemoryWatch":
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._over.set()
        self._thread.join()

    def sample(self) -> None:
        """Look once."""
        self.peak = max(self.peak, sum(_shared_out(self._proc / str(pid)) for pid in self._workers()))
        if self._cards:
            self.card_peak = max(self.card_peak, card_memory()[0] - self._before[0])

    def _watch(self) -> None:
        while not self._over.wait(PERIOD_S):
            self.sample()

    def _workers(self) -> list[int]:
        """Descendants of the process that work in a group."""
        return [
            pid for pid in descendants(self._pid, self._proc) if _in_group(_read(self._proc / str(pid) / "cmdline"))
        ]


def descendants(pid: int, proc: Path = Path("/proc")) -> set[int]:
    """Pids of the children of a process, their children, and so on."""
    parents = {int(entry.name): _parent(entry) for entry in proc.iterdir() if entry.name.isdigit()}
    found, last = {pid}, 0
    while len(found) > last:
        last = len(found)
        found |= {child for child, parent in parents.items() if parent in found}
    return found - {pid}


def card_memory() -> tuple[float, float]:
    """Bytes taken on all NVIDIA cards together and bytes of the largest; zeros where there is no driver."""
    try:
        told = subprocess.run(CARDS, capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return 0.0, 0.0
    pairs = [tuple(map(float, line.split(","))) for line in told.splitlines() if line.strip()]
    return sum(used for used, _ in pairs) * 2**20, max((size for _, size in pairs), default=0.0) * 2**20


def _in_group(command: str) -> bool:
    return command.startswith(TITLE) and not command.startswith(OTHERS)


def _shared_out(process: Path) -> float:
    lines = (line.split() for line in _read(process / "smaps_rollup").splitlines() if line.startswith("Pss:"))
    return sum(float(words[1]) * 1024 for words in lines)


def _parent(process: Path) -> int:
    fields = _read(process / "stat").rpartition(")")[2].split()
    return int(fields[1]) if fields else 0


def _read(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace")
    return ""
