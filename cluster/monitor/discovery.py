"""Where Prometheus finds the nodes of a sweep's Ray cluster: a file of each driver, in the storage that all hosts see.

Ray writes such a file in the folder of its session, which only the head's host has, and under Slurm no other user can
read. The driver runs on the head and passes it on; a driver that runs elsewhere has nothing to pass on.
"""

import contextlib
import os
import platform
import time
from pathlib import Path

from cluster.runtime import ray_internals

DISCOVERY_FOLDER = "prometheus"
"""Below the storage; prometheus.yml reads it."""
DISCOVERY_PERIOD_S = 15.0
"""Ray itself writes every 5 s."""
FORGOTTEN_S = 3600.0
"""A file that was not written for so long is of a driver that was killed."""


class TargetFile:
    """One driver's file, which lies there while it sweeps."""

    def __init__(self, storage: Path) -> None:
        self.path = storage / DISCOVERY_FOLDER / f"{platform.node()}-{os.getpid()}.json"
        self._next = 0.0

    def refresh(self) -> None:
        """Write what Ray's file says now, and take away what killed drivers left; a full disk holds nothing up."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + DISCOVERY_PERIOD_S
        source = ray_internals.discovery_file()
        if source is None:
            return
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            written = self.path.with_suffix(".new")
            written.write_bytes(source.read_bytes())
            written.replace(self.path)
            newest = self.path.stat().st_mtime
            for other in self.path.parent.glob("*.json"):
                if newest - other.stat().st_mtime > FORGOTTEN_S:
                    other.unlink(missing_ok=True)

    def remove(self) -> None:
        """The sweep is over."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
